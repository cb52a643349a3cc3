// One run of batches on warpgroups, for each element type.
#pragma once

#include "planck/core/stream.h"
#include "planck/loops/gemm/geometry.h"

namespace planck::gemm_device {

struct WarpgroupRun {
  gemm::Geometry g;
  std::int64_t batches, strides[gemm::kBatchOperands], offsets[gemm::kBatchOperands];
  void* copies[2];  // room for A and B along k; null for 16-bit elements
  // 16-bit elements: C is f32, sums that are not rounded; A and B lie across k.
  bool sums = false;
};

// False in `ran` where the copy engine cannot read an operand.
template <class T>  // bf16, f16, float, std::int8_t
Result<void> run_warpgroups(const Stream&, const WarpgroupRun&, bool& ran);

}  // namespace planck::gemm_device
