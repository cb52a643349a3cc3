// One product on the device, for each element type. The vectors' axis of C is the one along which
// it is dense, where it is dense at all.
#pragma once

#include "planck/loops/gemm/geometry.h"

namespace planck::gemm_device {

template <class T>  // float, double, f16, bf16, std::int8_t
Result<void> multiply(const Stream&, const gemm::Geometry&);

}  // namespace planck::gemm_device
