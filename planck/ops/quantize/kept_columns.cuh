// What a thread remembers of its columns' groups while it walks down the rows. It waits in shared
// memory and comes back one group at a time: kept in registers, it left room for half the loads in
// flight.
#pragma once

#include "planck/ops/quantize/cells.cuh"

namespace planck::quantize_device {

inline constexpr int kThreads = 256;

// Each thread writes and reads its own entries alone.
template <class T, int R>
struct KeptColumns {
  Compute<T> scale[R][kThreads], inverse[R][kThreads];
  std::int32_t z[R][kThreads];

  __device__ __forceinline__ void keep(int e, const Cell<T>& c) {
    scale[e][threadIdx.x] = c.scale;
    inverse[e][threadIdx.x] = c.inverse;
    z[e][threadIdx.x] = c.z;
  }
  template <int kMargin>
  __device__ __forceinline__ Cell<T> derive(int e, const GridAttributes& grid) const {
    return derive_cell<T>(scale[e][threadIdx.x], inverse[e][threadIdx.x], z[e][threadIdx.x],
                          kMargin, grid);
  }
};

}  // namespace planck::quantize_device
