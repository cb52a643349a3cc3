// Groups of consecutive elements on the device: short ones several a warp, long ones a block each
// or several blocks.
#pragma once

#include "planck/loops/chain.cuh"
#include "planck/ops/reduce/cuts.h"
#include "planck/ops/reduce/folds.cuh"

namespace planck::reduce_device {

inline constexpr int kTeamRuns = 8;  // of a thread at once, short rows
inline constexpr int kWarpTeams = 32 * kTeamRuns;
inline constexpr int kRowRuns = 4;               // and long rows
inline constexpr int kWarpRuns = 32 * kRowRuns;  // 2 KiB
inline constexpr int kRowDigits = 24;

template <class F>
struct RowArguments {
  const typename F::Stored* in;
  AxisMap kept, reduced;
  std::int64_t groups, length, runs;
  bool packs;          // runs are 16-byte accesses
  bool dense;          // and follow one another
  std::int64_t whole;  // runs without the last, where it is not a whole one
  const typename F::C* parameters;
  typename F::K flip;
  FoldSink<F> sink;
  // short rows
  int log2_team;
  // long rows
  std::int64_t chunks;
  int turns;  // of kWarpRuns runs a warp, a power of two
};

// The join of a run's elements.
template <class F>
__device__ __forceinline__ typename F::A join_pack(const RowArguments<F>& a,
                                                   const Pack<F::kRunBytes>& p, std::int64_t first,
                                                   typename F::C parameter) {
  if constexpr (F::kSearches) {
    typename F::C x[F::kRun];
#pragma unroll
    for (int e = 0; e < F::kRun; ++e) x[e] = element<typename F::Stored>(p, e);
    return F::best_of(x, F::kRun, a.flip, first);
  } else {
    typename F::A v[F::kRun];
#pragma unroll
    for (int e = 0; e < F::kRun; ++e)
      v[e] = F::lift(element<typename F::Stored>(p, e), parameter, a.flip, first + e);
    return join_run<typename F::Join>(v);
  }
}

// Of any run, wherever it lies.
template <class F>
__device__ __forceinline__ typename F::A load_run(const RowArguments<F>& a, std::int64_t base,
                                                  std::int64_t run, typename F::C parameter) {
  const std::int64_t first = run * F::kRun;
  if (a.packs && run < a.whole)
    return join_pack<F>(a, load_pack<F::kRunBytes, false>(a.in + base + a.reduced.offset(first), 0),
                        first, parameter);
  typename F::A v[F::kRun];
#pragma unroll 1
  for (int e = 0; e < F::kRun; ++e)
    v[e] = first + e < a.length ? F::lift(loaded(a.in[base + a.reduced.offset(first + e)]),
                                          parameter, a.flip, first + e)
                                : F::nothing();
  return join_run<typename F::Join>(v);
}

// Runs `run`, run + 32, … of a row: all loads are under way before the first is used.
template <class F>
__device__ __forceinline__ void load_runs(const RowArguments<F>& a, std::int64_t base,
                                          std::int64_t run, typename F::C parameter,
                                          typename F::A (&v)[kRowRuns]) {
  if (!a.dense) {
#pragma unroll
    for (int k = 0; k < kRowRuns; ++k)
      v[k] = run + k * 32 < a.runs ? load_run<F>(a, base, run + k * 32, parameter) : F::nothing();
    return;
  }
  const typename F::Stored* p = a.in + base + run * F::kRun;
  Pack<F::kRunBytes> packs[kRowRuns];
#pragma unroll
  for (int k = 0; k < kRowRuns; ++k)
    if (run + k * 32 < a.whole) packs[k] = load_pack<F::kRunBytes, false>(p + k * 32 * F::kRun, 0);
#pragma unroll
  for (int k = 0; k < kRowRuns; ++k)
    v[k] = run + k * 32 < a.whole ? join_pack<F>(a, packs[k], (run + k * 32) * F::kRun, parameter)
                                  : F::nothing();
  const std::int64_t last = a.whole - run;  // the run that is not a whole one is this lane's
  if (a.whole < a.runs && last >= 0 && last < kWarpRuns && last % 32 == 0) {
    const typename F::A rest = load_run<F>(a, base, a.whole, parameter);
#pragma unroll
    for (int k = 0; k < kRowRuns; ++k)
      if (last == k * 32) v[k] = rest;
  }
}

template <class F>
__device__ __forceinline__ typename F::C given(const RowArguments<F>& a, std::int64_t group) {
  if constexpr (F::kGiven)
    return a.parameters[group];
  else
    return typename F::C(0);
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
            load_pack<F::kRunBytes, false>(a.in + a.kept.offset(group(k)) + run * F::kRun, 0);
    }
#pragma unroll
    for (int k = 0; k < kTeamRuns; ++k)
      v[k] = valid[k]
                 ? join_pack<F>(a, packs[k], ((k * 32 + lane) & mask) * F::kRun, given(a, group(k)))
                 : F::nothing();
  } else {
#pragma unroll
    for (int k = 0; k < kTeamRuns; ++k) {
      const int run = (k * 32 + lane) & mask;
      v[k] = group(k) < a.groups && run < a.runs
                 ? load_run<F>(a, a.kept.offset(group(k)), run, given(a, group(k)))
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
    if (k < kTeamRuns >> halved && (run & mask) == 0 && at < a.groups)
      a.sink.put(at, at, v[k], a.parameters);
  }
}

// A block for each chunk of a group; each warp goes over consecutive runs.
template <class F>
__global__ void __launch_bounds__(256) long_rows(const RowArguments<F> a) {
  using A = typename F::A;
  using J = typename F::Join;
  __shared__ A shared[8];
  follow();
  const int warps = static_cast<int>(blockDim.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t group = a.chunks == 1 ? blockIdx.x : blockIdx.x / a.chunks;
  const std::int64_t chunk = blockIdx.x - group * a.chunks;
  const std::int64_t base = a.kept.offset(group);
  const typename F::C parameter = given(a, group);
  std::int64_t run =
      (chunk * warps + threadIdx.x / 32) * (static_cast<std::int64_t>(a.turns) * kWarpRuns) + lane;
  [[maybe_unused]] A digits[kRowDigits];
  A sum = F::nothing();
#pragma unroll 1
  for (int turn = 0; turn < a.turns; ++turn, run += kWarpRuns) {
    A v[kRowRuns];
    load_runs<F>(a, base, run, parameter, v);
    if constexpr (F::kAnyOrder) {
#pragma unroll
      for (int k = 0; k < kRowRuns; ++k) sum = F::then(sum, v[k]);
    } else {
      sum = join_warp<J>(v);
      int d = 0;
      for (; (turn >> d) & 1; ++d) sum = J::template of<A>(digits[d], sum);
      if (turn + 1 < a.turns) digits[d] = sum;
    }
  }
  if constexpr (F::kAnyOrder) {
    const A own[1] = {sum};
    sum = join_warp<J, 1, A>(own);
  }
  sum = join_warps<J>(sum, warps, shared);
  if (threadIdx.x == 0) a.sink.put(group, blockIdx.x, sum, a.parameters);
}

struct RowCut {
  bool is_short;
  int log2_team = 0, warps = 1, turns = 1;
  std::int64_t chunks = 1;

  static RowCut make(std::int64_t groups, std::int64_t runs) {
    RowCut c;
    c.is_short = runs <= kWarpTeams;
    if (c.is_short) {
      while ((1 << c.log2_team) < runs) ++c.log2_team;
      return c;
    }
    while (c.warps < 8 && c.warps * kWarpRuns < runs) c.warps *= 2;
    while (c.warps * kWarpRuns * c.turns < reduce_cuts::kLeastRuns &&
           static_cast<std::int64_t>(c.warps) * kWarpRuns * c.turns < runs)
      c.turns *= 2;
    const auto chunk = [&] { return static_cast<std::int64_t>(c.warps) * kWarpRuns * c.turns; };
    while (chunk() < runs && groups * ceil_div(runs, chunk()) > reduce_cuts::kEnoughBlocks)
      c.turns *= 2;
    c.chunks = ceil_div(runs, chunk());
    return c;
  }
};

template <class F>
Result<void> launch_rows(const Stream& stream, RowArguments<F> a, bool first, const RowCut& cut) {
  a.log2_team = cut.log2_team;
  a.turns = cut.turns;
  a.chunks = cut.chunks;
  const std::int64_t warp_groups = kWarpTeams >> cut.log2_team;
  const std::int64_t blocks =
      cut.is_short ? ceil_div(ceil_div(a.groups, warp_groups), 8) : a.groups * cut.chunks;
  const int threads = cut.is_short ? 256 : 32 * cut.warps;
  const auto kernel = cut.is_short ? short_rows<F> : long_rows<F>;
  return first ? launch(stream, "reduce rows", kernel, blocks, threads, a)
               : launch_next(stream, "reduce rows", kernel, blocks, threads, a);
}

}  // namespace planck::reduce_device
