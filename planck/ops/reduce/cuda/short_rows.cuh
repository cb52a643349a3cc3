// Groups of consecutive elements on the device: their runs of 16 bytes, and groups of which a warp
// has several.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/ops/reduce/cuda/cuts.h"
#include "planck/ops/reduce/cuda/folds.cuh"

namespace planck::reduce_device {

inline constexpr int kTeamRuns = 8;  // of a thread at once, short rows
inline constexpr int kWarpTeams = 32 * kTeamRuns;
inline constexpr int kRowWarps = 8, kMostRowWarps = 32;  // of a block
inline constexpr int kRowRuns = 8;                       // and long rows
inline constexpr int kWarpRuns = 32 * kRowRuns;          // 4 KiB
inline constexpr int kRowDigits = 24;
inline constexpr int kShortRuns = 128;  // a longer row is at least a warp's

// Loads leave the caches first, where registers hold all of a thread's at once.
template <class F>
inline constexpr bool kStreams = sizeof(typename F::Stored) < 8;

template <class F>
struct RowArguments {
  const typename F::Stored* in;
  AxisMap kept, reduced;
  std::int64_t groups, length, runs;
  bool packs;          // runs are 16-byte accesses
  bool dense;          // and follow one another
  std::int64_t whole;  // runs without the last, where it is not a whole one
  typename F::K flip;
  FoldSink<F> sink;
  // short rows
  int log2_team;
  // long rows
  std::int64_t chunks, padded_chunks;  // of a group, in the results of chunks
  int warps;                           // of a group, or of a chunk
  int turns;                           // of kWarpRuns runs per warp, a power of two
};

// The join of a run's elements.
template <class F>
__device__ __forceinline__ typename F::A join_pack(const RowArguments<F>& a,
                                                   const Pack<F::kRunBytes>& p,
                                                   std::int64_t first) {
  if constexpr (F::kSearches) {
    typename F::C x[F::kRun];
#pragma unroll
    for (int e = 0; e < F::kRun; ++e) x[e] = element<typename F::Stored>(p, e);
    return F::best_of(x, F::kRun, a.flip, first);
  } else {
    typename F::A v[F::kRun];
#pragma unroll
    for (int e = 0; e < F::kRun; ++e)
      v[e] = F::lift(element<typename F::Stored>(p, e), a.flip, first + e);
    return join_run<typename F::Join>(v);
  }
}

// Of any run, wherever it lies.
template <class F>
__device__ __forceinline__ typename F::A load_run(const RowArguments<F>& a, std::int64_t base,
                                                  std::int64_t run) {
  const std::int64_t first = run * F::kRun;
  if (a.packs && run < a.whole)
    return join_pack<F>(
        a, load_pack<F::kRunBytes, kStreams<F>>(a.in + base + a.reduced.offset(first), 0), first);
  typename F::A v[F::kRun];
#pragma unroll 1
  for (int e = 0; e < F::kRun; ++e)
    v[e] = first + e < a.length
               ? F::lift(loaded(a.in[base + a.reduced.offset(first + e)]), a.flip, first + e)
               : F::nothing();
  return join_run<typename F::Join>(v);
}

// Teams of 2^log2_team runs, up to a warp's.
template <class F>
__global__ void __launch_bounds__(256) short_rows(const RowArguments<F> a) {
  using A = typename F::A;
  using J = typename F::Join;
  follow();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t warp =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  const std::int64_t first = warp * (kWarpTeams >> a.log2_team);
  if (first >= a.groups) return;
  A v[kTeamRuns];
  const auto group = [&](int k) { return first + ((k * 32 + lane) >> a.log2_team); };
  const int mask = (1 << a.log2_team) - 1;
  if (a.dense && a.whole == a.runs) {
    Pack<F::kRunBytes> packs[kTeamRuns];
    bool valid[kTeamRuns];
#pragma unroll
    for (int k = 0; k < kTeamRuns; ++k) {
      const int run = (k * 32 + lane) & mask;
      valid[k] = group(k) < a.groups && run < a.runs;
      if (valid[k])
        packs[k] =
            load_pack<F::kRunBytes, kStreams<F>>(a.in + a.kept.offset(group(k)) + run * F::kRun, 0);
    }
#pragma unroll
    for (int k = 0; k < kTeamRuns; ++k)
      v[k] =
          valid[k] ? join_pack<F>(a, packs[k], ((k * 32 + lane) & mask) * F::kRun) : F::nothing();
  } else {
#pragma unroll
    for (int k = 0; k < kTeamRuns; ++k) {
      const int run = (k * 32 + lane) & mask;
      v[k] = group(k) < a.groups && run < a.runs ? load_run<F>(a, a.kept.offset(group(k)), run)
                                                 : F::nothing();
    }
  }
  // Lanes at distance 1, 2 and 4 share their runs out: each goes on with every eighth.
  const int halved = a.log2_team < 3 ? a.log2_team : 3;
#pragma unroll
  for (int level = 0; level < 3; ++level)
    if (level < halved)
#pragma unroll
      for (int k = 0; k < kTeamRuns >> (level + 1); ++k)
        v[k] = exchanged<J>(v[2 * k], v[2 * k + 1], 1 << level);
  for (int level = 3; level < a.log2_team; ++level)  // other lanes, then runs
    v[0] = J::template of<A>(v[0], across(v[0], level < 5 ? 1 << level : 1 << (level - 5)));
  const int low = lane & ((1 << halved) - 1);
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) {
    const int run = ((k << halved) + low) * 32 + lane - low;
    const std::int64_t at = first + (run >> a.log2_team);
    if (k < kTeamRuns >> halved && (run & mask) == 0 && at < a.groups) a.sink.put(at, at, v[k]);
  }
}

}  // namespace planck::reduce_device
