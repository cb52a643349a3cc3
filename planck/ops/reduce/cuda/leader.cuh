// The running extreme on the device: the last element of those so far that no other exceeds, by its
// place in a tile.
#pragma once

#include "planck/loops/rows/cuda/joins.cuh"
#include "planck/ops/reduce/cuda/scan_tile.cuh"

namespace planck::reduce_device {

inline constexpr int kCarried = -1, kNothing = -2;  // places: in an earlier tile; no element yet

// An element by its place in the tile.
template <class V>
struct Leader {
  V value;
  int at;
};
template <bool kLargest, class V>
__device__ __forceinline__ Leader<V> lead(const Leader<V>& earlier, const Leader<V>& later) {
  if (later.at == kNothing) return earlier;
  if (earlier.at == kNothing) return later;
  return rm::runs_on<kLargest>(later.value, earlier.value) ? later : earlier;
}
template <class V>
__device__ __forceinline__ Leader<V> from_lane_before(const Leader<V>& own, int distance) {
  return {__shfl_up_sync(~0u, own.value, distance), __shfl_up_sync(~0u, own.at, distance)};
}
// Of elements in a row, `left` of which are there.
template <bool kLargest, class V, int kCount>
__device__ __forceinline__ Leader<V> leader_of(const V (&x)[kCount], int place, int left) {
  Leader<V> best{x[0], left > 0 ? place : kNothing};
#pragma unroll
  for (int k = 1; k < kCount; ++k)
    if (k < left && rm::runs_on<kLargest>(x[k], best.value)) best = {x[k], place + k};
  return best;
}

// What leads after the tiles so far, the same in all threads of a group.
template <bool kLargest, class V>
struct Carried {
  Leader<V> leader{V(0), kNothing};
  std::int64_t index = 0;

  __device__ std::int64_t index_of(const Leader<V>& l, std::int64_t begin) const {
    return l.at == kCarried ? index : begin + l.at;
  }
  __device__ void take(const Leader<V>& next, std::int64_t begin) {
    index = index_of(next, begin);
    leader = {next.value, kCarried};
  }
};

}  // namespace planck::reduce_device
