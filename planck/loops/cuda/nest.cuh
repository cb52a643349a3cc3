// Loop nests on the device: where position p lies in each operand of a launch.
#pragma once

#include "planck/loops/cuda/division.cuh"
#include "planck/loops/nest_runs.h"

namespace planck {

template <int kOperands>
struct DeviceNest {
  int rank;
  bool narrow;  // positions of less than 31 bits
  std::int64_t total;
  std::int64_t extent[kMaxRank];
  Divisor divisor[kMaxRank];
  std::int64_t stride[kOperands][kMaxRank];
  std::int64_t offset[kOperands];

  // Of a nest that has been collapsed.
  static DeviceNest of(const Nest& nest) {
    DeviceNest n = {};
    n.rank = nest.rank;
    n.total = nest.total();
    n.narrow = n.total < kDivisorLimit;
    for (int d = 0; d < nest.rank; ++d) {
      const auto axis = static_cast<std::size_t>(d);
      n.extent[d] = nest.extent[axis];
      if (n.narrow) n.divisor[d] = Divisor(static_cast<std::uint32_t>(n.extent[d]));
      for (int k = 0; k < kOperands; ++k)
        n.stride[k][d] = nest.stride[static_cast<std::size_t>(k)][axis];
    }
    for (int k = 0; k < kOperands; ++k) n.offset[k] = nest.offset[static_cast<std::size_t>(k)];
    return n;
  }

  __device__ __forceinline__ void at(std::int64_t p, std::int64_t (&offsets)[kOperands]) const {
#pragma unroll
    for (int k = 0; k < kOperands; ++k) offsets[k] = offset[k];
#pragma unroll 1
    for (int d = rank - 1; d > 0; --d) {
      const std::int64_t outer =
          narrow ? divisor[d].quotient(static_cast<std::uint32_t>(p)) : p / extent[d];
      const std::int64_t here = p - outer * extent[d];
#pragma unroll
      for (int k = 0; k < kOperands; ++k) offsets[k] += here * stride[k][d];
      p = outer;
    }
#pragma unroll
    for (int k = 0; k < kOperands; ++k) offsets[k] += p * stride[k][0];
  }
};

}  // namespace planck
