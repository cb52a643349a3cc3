// Products by the library's own wgmma kernel, drawn and compared on the device.
//
// A round is one product A [m, k] B [k, n], both of one kind of numbers, of which every sum is held
// to the contract before it is rounded to C's dtype.
#pragma once

#include "planck/core/stream.h"
#include "planck/loops/gemm/cuda/follows.h"
#include "planck/loops/gemm/trials.h"

namespace planck::verify {

struct KernelRound {
  std::int64_t number;
  int m, n, k;

  // Sizes that take all widths of tiles, K that are and are no whole blocks and stages.
  static KernelRound of(std::int64_t number);
  // Other numbers than those of the instructions' trials.
  gemm::Trial drawn(std::uint64_t seed) const {
    return {seed, (std::uint64_t{1} << 40) + static_cast<std::uint64_t>(number)};
  }
};

struct KernelComparison {
  gemm_device::Comparison found;  // first: row · n + column
  float got = 0;                  // there
};
[[nodiscard]] Result<KernelComparison> compare_round(const Stream& stream, Dtype element,
                                                     std::uint64_t seed, const KernelRound& round);

}  // namespace planck::verify
