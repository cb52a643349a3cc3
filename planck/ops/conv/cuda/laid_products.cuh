// Products of laid windows on tensor cores: by warpgroups on Hopper, by warps on any GPU from 8.0
// on.
#pragma once

#include "planck/loops/gemm/cuda/follows.h"
#include "planck/loops/gemm/cuda/mma_tiles.h"
#include "planck/loops/gemm/cuda/warpgroups.h"

namespace planck::conv_device {

// `count` products, and elements from one to the next of A, B and C.
inline gemm::Batches batches_of(std::int64_t count, std::int64_t a, std::int64_t b,
                                std::int64_t c) {
  gemm::Batches batches;
  batches.rank = 1, batches.count = batches.extent[0] = count;
  batches.stride[0][0] = a, batches.stride[1][0] = b, batches.stride[2][0] = c;
  return batches;
}

// sums: of 16-bit elements that lie across k, C is f32 that is not rounded.
template <class T>
Result<void> multiply_laid(const Stream& stream, gemm_device::Instruction by,
                           const gemm::Geometry& g, bool sums = false) {
  if (by == gemm_device::Instruction::mma_sync) {
    if constexpr (sizeof(T) == 2)
      if (sums) return gemm_device::run_mma_sums<T>(stream, g);
    return gemm_device::run_mma_tiles<T>(stream, g);
  }
  gemm_device::WarpgroupRun run{};
  run.g = g, run.g.batches = {};
  run.batches = g.batches.count, run.sums = sums;
  for (int o = 0; o < 3; ++o) run.strides[o] = g.batches.stride[o][0];
  bool ran = false;
  if (auto ok = gemm_device::run_warpgroups<T>(stream, run, ran); !ok) return ok;
  return ran ? Result<void>{}
             : fail(ErrorCode::device, "conv2d: the copy engine refuses laid windows");
}

}  // namespace planck::conv_device
