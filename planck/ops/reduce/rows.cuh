// Groups of consecutive elements on the device: short ones several a warp, long ones a block each
// or several blocks.
#pragma once

#include "planck/loops/chain.cuh"
#include "planck/ops/reduce/cuts.h"
#include "planck/ops/reduce/folds.cuh"

namespace planck::reduce_device {

inline constexpr int kRowRuns = 4;               // of a thread at once
inline constexpr int kWarpRuns = 32 * kRowRuns;  // 2 KiB
inline constexpr int kRowDigits = 24;

template <class F>
struct RowArguments {
  const typename F::Stored* in;
  AxisMap kept, reduced;
  std::int64_t groups, length, runs;
  bool packs;
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
__device__ __forceinline__ typename F::A load_run(const RowArguments<F>& a, std::int64_t base,
                                                  std::int64_t run, typename F::C parameter) {
  using A = typename F::A;
  const std::int64_t first = run * F::kRun;
  A v[F::kRun];
  if (a.packs && first + F::kRun <= a.length) {
    if constexpr (F::kRun > 1) {
      const auto p = load_pack<F::kRunBytes, false>(a.in + base + a.reduced.offset(first), 0);
#pragma unroll
      for (int e = 0; e < F::kRun; ++e)
        v[e] = F::lift(element<typename F::Stored>(p, e), parameter, a.flip, first + e);
    } else {
      v[0] = F::lift(loaded(a.in[base + a.reduced.offset(first)]), parameter, a.flip, first);
    }
  } else {
#pragma unroll
    for (int e = 0; e < F::kRun; ++e)
      v[e] = first + e < a.length ? F::lift(loaded(a.in[base + a.reduced.offset(first + e)]),
                                            parameter, a.flip, first + e)
                                  : F::nothing();
  }
  return join_run<typename F::Join>(v);
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
  const std::int64_t first = warp * (kWarpRuns >> a.log2_team);
  if (first >= a.groups) return;
  A v[kRowRuns];
  std::int64_t group[kRowRuns];
#pragma unroll
  for (int k = 0; k < kRowRuns; ++k) {
    const int slot = k * 32 + lane, run = slot & ((1 << a.log2_team) - 1);
    group[k] = first + (slot >> a.log2_team);
    v[k] = group[k] < a.groups && run < a.runs
               ? load_run<F>(a, a.kept.offset(group[k]), run, given(a, group[k]))
               : F::nothing();
  }
  const int levels = a.log2_team < 5 ? a.log2_team : 5;
  for (int level = 0; level < levels; ++level)
#pragma unroll
    for (int k = 0; k < kRowRuns; ++k) v[k] = J::template of<A>(v[k], across(v[k], 1 << level));
  int own = kRowRuns;  // runs of different teams
  if (a.log2_team >= 6) {
    v[0] = J::template of<A>(v[0], v[1]);
    v[1] = J::template of<A>(v[2], v[3]);
    group[1] = group[2];
    own = 2;
  }
  if (a.log2_team == 7) {
    v[0] = J::template of<A>(v[0], v[1]);
    own = 1;
  }
  if ((lane & ((1 << levels) - 1)) != 0) return;
#pragma unroll
  for (int k = 0; k < kRowRuns; ++k)
    if (k < own && group[k] < a.groups) a.sink.put(group[k], group[k], v[k], a.parameters);
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
  A digits[kRowDigits], sum = F::nothing();
#pragma unroll 1
  for (int turn = 0; turn < a.turns; ++turn, run += kWarpRuns) {
    A v[kRowRuns];
#pragma unroll
    for (int k = 0; k < kRowRuns; ++k)
      v[k] = run + k * 32 < a.runs ? load_run<F>(a, base, run + k * 32, parameter) : F::nothing();
    sum = join_warp<J>(v);
    bool open = true;  // digits in registers: their numbers must be constants
#pragma unroll
    for (int d = 0; d < kRowDigits; ++d) {
      if (open && ((turn >> d) & 1) == 0) {
        digits[d] = sum;
        open = false;
      }
      if (!open) break;
      sum = J::template of<A>(digits[d], sum);
    }
  }
  sum = join_warps<J>(sum, warps, shared);
  if (threadIdx.x == 0) a.sink.put(group, blockIdx.x, sum, a.parameters);
}

struct RowCut {
  bool is_short;
  int log2_team = 0, warps = 1, turns = 1;
  std::int64_t chunks = 1;

  static RowCut make(std::int64_t groups, std::int64_t runs, int run_elements) {
    RowCut c;
    c.is_short = runs <= kWarpRuns;
    if (c.is_short) {
      while ((1 << c.log2_team) < runs) ++c.log2_team;
      return c;
    }
    while (c.warps < 8 && c.warps * kWarpRuns < runs) c.warps *= 2;
    while (c.warps * kWarpRuns * c.turns * run_elements < reduce_cuts::kLeastRow &&
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
  const std::int64_t warp_groups = kWarpRuns >> cut.log2_team;
  const std::int64_t blocks =
      cut.is_short ? ceil_div(ceil_div(a.groups, warp_groups), 8) : a.groups * cut.chunks;
  const int threads = cut.is_short ? 256 : 32 * cut.warps;
  const auto kernel = cut.is_short ? short_rows<F> : long_rows<F>;
  return first ? launch(stream, "reduce rows", kernel, blocks, threads, a)
               : launch_next(stream, "reduce rows", kernel, blocks, threads, a);
}

}  // namespace planck::reduce_device
