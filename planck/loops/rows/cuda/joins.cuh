// Results of lanes, warps and runs joined in the pairwise order, on the device.
//
// A warp's runs are numbered k * 32 + lane. Joining lanes at distance 1, 2, 4, …, then a thread's
// runs, then warps is the binary tree over run numbers.
#pragma once

#include <cstdint>

#include "planck/loops/cuda/values.cuh"
#include "planck/math/reduction.h"

namespace planck::reduce_device {

namespace rm = reduce_math;

using planck::stored;

// Element e of a pack, or the only one: what an earlier round has found.
template <class S, int kBytes>
__device__ __forceinline__ Value<S> element(const Pack<kBytes>& p, int e) {
  if constexpr (kIsFloat<S> || std::is_integral_v<S>) {
    return value_at<S>(p, e);
  } else {
    static_assert(sizeof(S) == kBytes);
    S v;
    memcpy(&v, p.word, sizeof v);
    return v;
  }
}

template <class A>
__device__ __forceinline__ A across(A v, int lanes) {
  return __shfl_xor_sync(~0u, v, lanes);
}
template <class K>
__device__ __forceinline__ rm::Found<K> across(const rm::Found<K>& v, int lanes) {
  return {__shfl_xor_sync(~0u, v.key, lanes), __shfl_xor_sync(~0u, v.index, lanes)};
}

// Half of the lanes go on with one value, the others with the other.
template <class J, class A>
__device__ __forceinline__ A exchanged(A if_low, A if_high, int bit) {
  const bool high = (threadIdx.x & bit) != 0;
  const A sent = high ? if_low : if_high, kept = high ? if_high : if_low;
  return J::template of<A>(kept, across(sent, bit));
}

// The join of a warp's runs, in every lane. Each step hands half of a lane's values to its partner:
// 8 shuffles for 4 runs instead of 20.
template <class J, int kRuns, class A>
__device__ __forceinline__ A join_warp(const A (&v)[kRuns]) {
  static_assert(kRuns == 1 || kRuns == 2 || kRuns == 4 || kRuns == 8);
  if constexpr (kRuns == 8) {
    const A low[4] = {v[0], v[1], v[2], v[3]}, high[4] = {v[4], v[5], v[6], v[7]};
    return J::template of<A>(join_warp<J, 4, A>(low), join_warp<J, 4, A>(high));
  } else if constexpr (kRuns == 4) {
    A a = exchanged<J>(exchanged<J>(v[0], v[1], 1), exchanged<J>(v[2], v[3], 1), 2);
    for (int bit = 4; bit < 32; bit *= 2) a = J::template of<A>(a, across(a, bit));
    a = J::template of<A>(a, across(a, 1));
    return J::template of<A>(a, across(a, 2));
  } else if constexpr (kRuns == 2) {
    A a = exchanged<J>(v[0], v[1], 1);
    for (int bit = 2; bit < 32; bit *= 2) a = J::template of<A>(a, across(a, bit));
    return J::template of<A>(a, across(a, 1));
  } else {
    A a = v[0];
    for (int bit = 1; bit < 32; bit *= 2) a = J::template of<A>(a, across(a, bit));
    return a;
  }
}

// The join of `warps` consecutive warps (a power of two, up to 32), in all their threads. shared:
// one entry per warp of the block. Every thread of the block must call.
template <class J, class A>
__device__ __forceinline__ A join_warps(A v, int warps, A* shared) {
  if (warps == 1) return v;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // the entries may still be read
  if (lane == 0) shared[warp] = v;
  __syncthreads();
  A all = shared[(warp & ~(warps - 1)) + (lane & (warps - 1))];
  for (int bit = 1; bit < warps; bit *= 2) all = J::template of<A>(all, across(all, bit));
  return all;
}

// Neighbours within a run.
template <class J, int kCount, class A>
__device__ __forceinline__ A join_run(A (&v)[kCount]) {
#pragma unroll
  for (int step = 1; step < kCount; step *= 2)
#pragma unroll
    for (int e = 0; e + step < kCount; e += 2 * step) v[e] = J::template of<A>(v[e], v[e + step]);
  return v[0];
}

// The join of turns 0 ... `turn` if turn + 1 is a power of two, in `sum`; before it that of `turn`
// alone. What waits lies in `few`, in registers, up to 2^kFew turns; then in `many`, which is not:
// memory takes a microsecond.
template <class J, int kLevel = 0, int kFew, int kMany, int kCount, class A>
__device__ __forceinline__ void join_turn(int turn, A (&sum)[kCount], A (&few)[kFew][kCount],
                                          A (&many)[kMany][kCount]) {
  const auto join = [&](const A(&before)[kCount]) {
#pragma unroll
    for (int e = 0; e < kCount; ++e) sum[e] = J::template of<A>(before[e], sum[e]);
  };
  const auto keep = [&](A(&to)[kCount]) {
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = sum[e];
  };
  if constexpr (kLevel < kFew) {
    if (turn >> kLevel & 1) {
      join(few[kLevel]);
      join_turn<J, kLevel + 1>(turn, sum, few, many);
    } else {
      keep(few[kLevel]);
    }
  } else {
    int d = 0;
    for (; turn >> (kFew + d) & 1; ++d) join(many[d]);
    keep(many[d]);
  }
}

}  // namespace planck::reduce_device
