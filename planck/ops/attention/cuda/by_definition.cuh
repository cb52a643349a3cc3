// One query, by definition: what a warp does of cuda:rows, and of what other kernels cannot do.
#pragma once

#include "planck/ops/attention/attention.problem.h"
#include "planck/ops/attention/cuda/scores.cuh"

namespace planck::attention_device {

// Scores of a block of keys as powers and as weights, in shared memory.
template <class T, bool kChain>
struct RowRoom {
  Compute<T> powers[element::kBlock];
  Weight<T, kChain> weights[element::kBlock];
};

// A warp: y and lse of query i. Its lanes have scores, 128 at a time, then columns of y.
template <class T, bool kChain>
__device__ __forceinline__ void attend_row(const Call& c, Index n, Index head, Index i,
                                           RowRoom<T, kChain>& room) {
  using C = Compute<T>;
  constexpr unsigned kAll = 0xffffffffu;
  constexpr int kRows = element::kBlock, kColumns = kMostHeadWidth / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const C hidden = -math::infinity_of(C(0));
  const Index group = head / (c.heads / c.groups);
  const Range seen = keys_of(c, i);
  C m = hidden, part = 0, sums[kColumns] = {};
  for (Index start = seen.first / kRows * kRows; start < seen.end; start += kRows) {
    const int count = static_cast<int>(c.keys - start < kRows ? c.keys - start : kRows);
    C t[kRows / 32], now = m;
    for (int x = 0; x < kRows / 32; ++x) {
      const Index j = start + lane + 32 * x;
      t[x] = seen.has(j) ? score<T, kChain>(c, n, head, i, j) : hidden;
      now = element::larger(now, t[x]);
    }
    for (int by = 16; by > 0; by /= 2) now = element::larger(now, __shfl_xor_sync(kAll, now, by));
    const C factor = element::power(m - now);
    m = now;
    __syncwarp();
    for (int x = 0; x < kRows / 32; ++x) {
      const C p = element::power(t[x] - m);
      room.powers[lane + 32 * x] = p;
      const bool dropped = c.drops && !keeps<C>(c, n, head, i, start + lane + 32 * x);
      room.weights[lane + 32 * x] = weight_of<T, kChain>(dropped ? C(0) : p);
    }
    __syncwarp();
    if (lane < element::kPartialSums) {
      part *= factor;
      for (int r = lane; r < count; r += element::kPartialSums) part += room.powers[r];
    }
    for (int x = 0; x < kColumns; ++x)
      if (const int e = lane + 32 * x; e < c.out_width)
        sums[x] = add_weighted<T, kChain>(sums[x] * factor, room.weights,
                                          at_row<T>(c.v, n, group, start) + e * c.v.stride[3],
                                          c.v.stride[2], count);
  }
  C parts[element::kPartialSums];
  for (int k = 0; k < element::kPartialSums; ++k) parts[k] = __shfl_sync(kAll, part, k);
  const C l = element::sum_of_parts(parts, 1);
  C factor = element::row_factor(m, l);
  if (c.drops) factor *= enlarged<C>(c);
  for (int x = 0; x < kColumns; ++x)
    if (const int e = lane + 32 * x; e < c.out_width)
      store<T>(c.y, n, head, i, e, element::result(sums[x], factor));
  if (lane == 0) *const_cast<C*>(at_row<C>(c.lse, n, head, i)) = element::log_sum_exp(m, l);
}

// The same of chosen ones of 16 queries, of which i is the first: few kernels ever come here.
template <class T>
__device__ __noinline__ void attend_chosen(const Call& c, int n, int head, int i, unsigned chosen,
                                           char* piece) {
  constexpr bool kChain = std::is_same_v<T, float>;
  auto& room = *reinterpret_cast<RowRoom<T, kChain>*>(piece);
#pragma unroll 1
  for (; chosen != 0; chosen &= chosen - 1)
    attend_row<T, kChain>(c, n, head, i + __ffs(static_cast<int>(chosen)) - 1, room);
}

}  // namespace planck::attention_device
