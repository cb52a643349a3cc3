// Where element i of some axes lies, on the device.
#pragma once

#include <cstdint>

#include "planck/loops/nest.h"

namespace planck {

struct AxisMap {
  int rank = 1;
  std::int64_t extent[kMaxNestRank] = {1}, stride[kMaxNestRank] = {}, start = 0;

  static AxisMap of(const Walk& w) {
    AxisMap m;
    m.rank = w.rank;
    m.start = w.offset;
    for (int d = 0; d < w.rank; ++d) {
      m.extent[d] = w.extent[static_cast<std::size_t>(d)];
      m.stride[d] = w.stride[static_cast<std::size_t>(d)];
    }
    return m;
  }
  static AxisMap line(std::int64_t step) {
    AxisMap m;
    m.stride[0] = step;
    return m;
  }

  __device__ __forceinline__ std::int64_t offset(std::int64_t i) const {
    if (rank == 1) return start + i * stride[0];
    std::int64_t at = start;
#pragma unroll 1
    for (int d = rank - 1; d > 0; --d) {
      std::int64_t q, r;
      if (((i | extent[d]) >> 32) == 0) {  // half as long as the division of 64 bits
        const auto n = static_cast<std::uint32_t>(i), by = static_cast<std::uint32_t>(extent[d]);
        q = n / by;
        r = n % by;
      } else {
        q = i / extent[d];
        r = i - q * extent[d];
      }
      at += r * stride[d];
      i = q;
    }
    return at + i * stride[0];
  }

  // Whether runs of `run` elements of `bytes` each, which begin at multiples of `run`, are aligned
  // accesses: the innermost axis is dense, and no run leaves it.
  bool packs(std::int64_t run, std::int64_t bytes, std::int64_t count) const {
    if (count <= 1) return false;
    if (stride[rank - 1] != 1 || (rank > 1 && extent[rank - 1] % run != 0)) return false;
    for (int d = 0; d < rank - 1; ++d)
      if (stride[d] * bytes % (run * bytes) != 0) return false;
    return start * bytes % (run * bytes) == 0;
  }
  // Whether every element lies at a multiple of 16 bytes.
  bool aligned(std::int64_t bytes) const {
    for (int d = 0; d < rank; ++d)
      if (extent[d] != 1 && stride[d] * bytes % 16 != 0) return false;
    return start * bytes % 16 == 0;
  }
};

}  // namespace planck
