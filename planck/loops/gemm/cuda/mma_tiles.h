// Products by mma.sync, for each element type.
#pragma once

#include <algorithm>

#include "planck/core/stream.h"
#include "planck/loops/gemm/geometry.h"

namespace planck::gemm_device {

// Whether extents, filled up to tiles, and the number of tiles are counted in 32 bits.
inline bool fits_mma_tiles(std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kMost = INT32_MAX - 256;
  if (std::max({batches, m, n, k}) > kMost) return false;
  const auto tiles = [](std::int64_t extent) { return (extent + 63) / 64; };
  std::int64_t all = 0;
  return !__builtin_mul_overflow(batches, tiles(m) * tiles(n), &all) && all <= kMost;
}

// Any strides, K = 0 too. What fits.
template <class T>  // bf16, f16, float (as TF32), std::int8_t
Result<void> run_mma_tiles(const Stream&, const gemm::Geometry&);
// C is f32, sums that are not rounded; A and B lie across k, at multiples of 16 bytes.
template <class T>  // bf16, f16
Result<void> run_mma_sums(const Stream&, const gemm::Geometry&);

}  // namespace planck::gemm_device
