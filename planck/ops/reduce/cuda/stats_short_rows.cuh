// var and logsumexp of groups of consecutive elements, several per warp.
#pragma once

#include "planck/ops/reduce/cuda/stats_rows.cuh"

namespace planck::reduce_device {

// Joins runs within teams of 2^log2_team, up to a warp's; each run gets what its team has.
template <class J, int kRuns, class C>
__device__ __forceinline__ void join_teams(C (&v)[kRuns], int log2_team) {
  for (int level = 0; level < log2_team && level < 5; ++level)
#pragma unroll
    for (int k = 0; k < kRuns; ++k) v[k] = J::template of<C>(v[k], across(v[k], 1 << level));
#pragma unroll
  for (int bit = 1; bit < kRuns; bit *= 2)
    if (32 * bit < 1 << log2_team)
#pragma unroll
      for (int k = 0; k < kRuns; ++k)
        if ((k & bit) == 0) v[k] = v[k | bit] = J::template of<C>(v[k], v[k | bit]);
}

// Groups of 256 elements at most, several per warp, 2^log2_turns times; the next are loaded while
// these are computed.
template <class T, bool kVar, bool kDense>
__global__ void __launch_bounds__(32 * kFewRowStatWarps) stat_short_rows(const StatRows<T> a) {
  using C = Compute<T>;
  constexpr int kRun = kRunOf<T>, kRuns = kChunkRuns<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32, mask = (1 << a.log2_team) - 1;
  const std::int64_t warp =
      static_cast<std::int64_t>(blockIdx.x) * kFewRowStatWarps + threadIdx.x / 32;
  const int step = (32 * kRuns) >> a.log2_team;  // groups of a turn
  std::int64_t first = (warp << a.log2_turns) * step;
  const auto group = [&](int k) { return first + ((k * 32 + lane) >> a.log2_team); };
  const auto run_at = [&](int k) { return ((k * 32 + lane) & mask) * kRun; };
  const auto fetch = [&](ChunkPacks<T>& p) {
#pragma unroll
    for (int k = 0; k < kRuns; ++k)
      if (kDense && group(k) < a.groups && run_at(k) + kRun <= a.length)
        p[k] = load_pack<16, true>(a.dense.at(group(k), run_at(k)), 0);
  };
  ChunkPacks<T> p, ahead;
  fetch(p);
#pragma unroll 1
  for (int turn = 0; turn >> a.log2_turns == 0 && first < a.groups; ++turn) {
    if ((turn + 1) >> a.log2_turns == 0) {
      first += step;
      fetch(ahead);
      first -= step;
    }
    int left[kRuns];  // elements of a run
#pragma unroll
    for (int k = 0; k < kRuns; ++k) {
      left[k] = group(k) < a.groups ? max(0, min(static_cast<int>(a.length) - run_at(k), kRun)) : 0;
      if (kDense && left[k] == kRun) continue;
      p[k] = filler<T, kVar>();
      const auto place = [&](int e) {
        return kDense ? a.dense.at(group(k), run_at(k) + e) : a.in.at(group(k), run_at(k) + e);
      };
      if (!kDense && a.in.packs && left[k] == kRun) {
        p[k] = load_pack<16, true>(place(0), 0);
      } else {
#pragma unroll
        for (int e = 0; e < kRun; ++e)
          if (e < left[k]) set_element(p[k], e, *place(e));
      }
    }
    C parameter[kRuns], sum[kRuns], least[kRuns];
#pragma unroll
    for (int k = 0; k < kRuns; ++k) {
      if constexpr (kVar) {
        C v[kRun];
#pragma unroll
        for (int e = 0; e < kRun; ++e) v[e] = element_of<T>(p[k], e);
        parameter[k] = join_run<rm::Add>(v);
      } else {
        parameter[k] = least[k] = element_of<T>(p[k], 0);
#pragma unroll
        for (int e = 1; e < kRun; ++e) {
          const C x = element_of<T>(p[k], e);
          parameter[k] = larger(parameter[k], x);
          least[k] = x < least[k] ? x : least[k];
        }
      }
    }
    join_teams<std::conditional_t<kVar, rm::Add, Larger>>(parameter, a.log2_team);
    bool near = true;
#pragma unroll
    for (int k = 0; k < kRuns; ++k) {
      if constexpr (kVar)
        parameter[k] /= static_cast<C>(a.length);
      else
        near = near && (left[k] == 0 || is_near(least[k], parameter[k]));
    }
    const auto sum_of = [&](const auto& lift) {
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        C v[kRun];
#pragma unroll
        for (int e = 0; e < kRun; ++e) v[e] = lift(element_of<T>(p[k], e), k, e);
        sum[k] = join_run<rm::Add>(v);
        if (left[k] == 0) sum[k] = C(0);
      }
    };
    if constexpr (kVar)
      sum_of([&](C x, int k, int e) { return e < left[k] ? rm::square(x, parameter[k]) : C(0); });
    else if (__all_sync(~0u, near))
      sum_of([](C x, int, int) { return row_device::term_near(x); });
    else
      sum_of(
          [&](C x, int k, int) { return math::exp_term(x - math::center_of_terms(parameter[k])); });
    join_teams<rm::Add>(sum, a.log2_team);
#pragma unroll
    for (int k = 0; k < kRuns; ++k)
      if (((k * 32 + lane) & mask) == 0 && group(k) < a.groups)
        a.sink.put(group(k), 0, node_of<kVar>(parameter[k], sum[k], 0));
    first += step;
#pragma unroll
    for (int k = 0; k < kRuns; ++k) p[k] = ahead[k];
  }
}

}  // namespace planck::reduce_device
