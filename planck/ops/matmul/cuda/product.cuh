// One product on the device, for each element type. The vectors' axis of C is the one along which
// it is dense, where it is dense at all.
#pragma once

#include "planck/loops/gemm/geometry.h"

namespace planck::matmul_device {

Result<void> multiply_f32(const Stream&, const matmul_detail::Geometry&);
Result<void> multiply_f64(const Stream&, const matmul_detail::Geometry&);
Result<void> multiply_f16(const Stream&, const matmul_detail::Geometry&);
Result<void> multiply_bf16(const Stream&, const matmul_detail::Geometry&);
Result<void> multiply_s8(const Stream&, const matmul_detail::Geometry&);

}  // namespace planck::matmul_device
