// Backward, in the registers that two products left their sums in: s and dp become probabilities
// and slopes; what a lane knows of its queries or keys meanwhile; results.
#pragma once

#include "planck/ops/attention/cuda/options.cuh"
#include "planck/ops/attention/cuda/tensor_cores.cuh"
#include "planck/ops/attention/cuda/tiles.cuh"

namespace planck::attention_device {

// Steps of 64 rows: of all rows that somebody of the block sees.
struct Steps {
  int first, end;
  __device__ static Steps over(const Range& first, const Range& last) {
    return {static_cast<int>(first.first) / 64, (static_cast<int>(last.end) + 63) / 64};
  }
};

// A lane's sums of a step, s and dp, become p and ds. sees(x): sum x is of a query that sees its
// key; whole: all are. lse(x), delta(x): of its query; total: no lse is +Inf or NaN. s is there; dp
// is when `await` returns. options(x): slopes with what else scores become.
template <class W, class Sees, class Lse, class Delta, class Await, class Options>
__device__ __forceinline__ void take_slopes(float (&s)[W::kStep / 2], float (&dp)[W::kStep / 2],
                                            float scale, bool whole, bool total, Sees sees, Lse lse,
                                            Delta delta, Await await, Options options) {
  if constexpr (W::kOptions) {
    await();
#pragma unroll
    for (int x = 0; x < W::kStep / 2; ++x) {
      const Slope<float> slope = sees(x) ? options(x) : Slope<float>{0, 0};
      s[x] = slope.p, dp[x] = slope.ds;
    }
  } else {
#pragma unroll
    for (int x = 0; x < W::kStep / 2; ++x)
      s[x] = element::power(smaller_or_nan(element::score(s[x], scale) - lse(x), 0.0f));
    if (!whole)
#pragma unroll
      for (int x = 0; x < W::kStep / 2; ++x)
        if (!sees(x)) s[x] = 0;
    if (!total)
#pragma unroll
      for (int x = 0; x < W::kStep / 2; ++x)
        if (sees(x) && !(lse(x) < math::infinity_of(0.0f))) s[x] = math::nan_of(0.0f);
    wgmma_hold(s);  // done before dp is awaited
    await();
#pragma unroll
    for (int x = 0; x < W::kStep / 2; ++x) dp[x] = s[x] * (dp[x] - delta(x));
  }
}

// All lanes, of their two rows: whether they see the whole step.
template <int kStep>
__device__ __forceinline__ bool see_step(const int (&first)[2], const int (&end)[2], int start) {
  return __all_sync(0xffffffffu, first[0] <= start && start + kStep <= end[0] &&
                                     first[1] <= start && start + kStep <= end[1]);
}

// A lane's two queries, the first of which is `row`; s and dp have keys across.
struct OwnQueries {
  int i[2], first[2], end[2];  // keys that they see
  float lse[2], delta[2];
  bool total = true;  // of all lanes

  __device__ __forceinline__ OwnQueries(const Call& c, const Stats& stats, const Where& at,
                                        int row) {
    for (int h = 0; h < 2; ++h) {
      i[h] = row + 8 * h;
      const bool there = i[h] < c.queries;
      const Range seen = there ? keys_of(c, i[h]) : Range{0, 0};
      first[h] = static_cast<int>(seen.first), end[h] = static_cast<int>(seen.end);
      const Index place = (at.n * c.heads + at.head) * c.delta_rows + i[h];
      lse[h] = there ? stats.lse[place] : 0, delta[h] = there ? stats.delta[place] : 0;
      total = total && lse[h] < math::infinity_of(0.0f);
    }
    total = __all_sync(0xffffffffu, total);
  }
  template <class W, class Await>
  __device__ __forceinline__ void take_slopes(const Call& c, const Where& at,
                                              float (&s)[W::kStep / 2], float (&dp)[W::kStep / 2],
                                              int start, Await await) const {
    const int column = start + static_cast<int>(threadIdx.x) % 4 * 2;
    attention_device::take_slopes<W>(
        s, dp, static_cast<float>(c.scale), see_step<W::kStep>(first, end, start), total,
        [&](int x) {
          const int j = column + column_of(x);
          return first[row_of(x)] <= j && j < end[row_of(x)];
        },
        [&](int x) { return lse[row_of(x)]; }, [&](int x) { return delta[row_of(x)]; }, await,
        [&](int x) {
          const int h = row_of(x);
          return slope_with_options<typename W::T>(c, s[x], dp[x], lse[h], delta[h], at.n, at.head,
                                                   i[h], column + column_of(x));
        });
  }
};

// A lane's two keys; s and dp have queries across, whose lse and delta lie in shared memory.
struct OwnKeys {
  int j[2], first[2], end[2];  // queries that see them

  __device__ __forceinline__ OwnKeys(const Call& c, int row) {
    for (int h = 0; h < 2; ++h) {
      j[h] = row + 8 * h;
      const Range seen = j[h] < c.keys ? queries_of(c, j[h]) : Range{0, 0};
      first[h] = static_cast<int>(seen.first), end[h] = static_cast<int>(seen.end);
    }
  }
  template <class W, class Await>
  __device__ __forceinline__ void take_slopes(const Call& c, const Where& at, int head,
                                              const char* lse_at, const char* delta_at,
                                              float (&s)[W::kStep / 2], float (&dp)[W::kStep / 2],
                                              int start, Await await) const {
    const float* const lse = reinterpret_cast<const float*>(lse_at);
    const float* const delta = reinterpret_cast<const float*>(delta_at);
    const int lane = static_cast<int>(threadIdx.x) % 32, column = lane % 4 * 2;
    const bool total = __all_sync(0xffffffffu, lse[lane] < math::infinity_of(0.0f) &&
                                                   lse[lane + 32] < math::infinity_of(0.0f));
    attention_device::take_slopes<W>(
        s, dp, static_cast<float>(c.scale), see_step<W::kStep>(first, end, start), total,
        [&](int x) {
          const int i = start + column + column_of(x);
          return first[row_of(x)] <= i && i < end[row_of(x)];
        },
        [&](int x) { return lse[column + column_of(x)]; },
        [&](int x) { return delta[column + column_of(x)]; }, await,
        [&](int x) {
          const int place = column + column_of(x);
          return slope_with_options<typename W::T>(c, s[x], dp[x], lse[place], delta[place], at.n,
                                                   head, start + place, j[row_of(x)]);
        });
  }
};

// The results of a warp's 16 rows, from `row` on, and which of them are to be done again.
template <class W>
__device__ __forceinline__ void finish_dq(const Call& c, const Where& at, int row,
                                          const float (&sums)[W::kWidth / 2], char* piece,
                                          const ChosenRows& again) {
  const bool may[2] = {true, true};
  const float scale = static_cast<float>(c.scale);
  const unsigned nan = store_results<typename W::T, W::kWidth>(
      c.dq, at, row, static_cast<int>(c.queries), c.width, c.packs, may, piece,
      [&](int x) { return element::result(sums[x], scale); });
  if (threadIdx.x % 32 == 0) again.set(at.n * c.heads + at.head, row, nan);
}
template <class W>
__device__ __forceinline__ void finish_dk_dv(const Call& c, const Where& at, int row,
                                             const float (&dk)[W::kWidth / 2],
                                             const float (&dv)[W::kWidth / 2], char* piece,
                                             const ChosenRows& again) {
  using T = typename W::T;
  const bool may[2] = {true, true};
  const float of_dv = W::kOptions && c.drops ? enlarged<float>(c) : 1.0f;
  const float scale = static_cast<float>(c.scale);
  const int keys = static_cast<int>(c.keys);
  unsigned nan = store_results<T, W::kWidth>(c.dv, at, row, keys, c.out_width, c.packs, may, piece,
                                             [&](int x) { return element::result(dv[x], of_dv); });
  nan |= store_results<T, W::kWidth>(c.dk, at, row, keys, c.width, c.packs, may, piece,
                                     [&](int x) { return element::result(dk[x], scale); });
  if (threadIdx.x % 32 == 0) again.set(at.n * c.groups + at.head, row, nan);
}

}  // namespace planck::attention_device
