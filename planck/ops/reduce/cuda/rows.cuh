// Groups of consecutive elements on the device: short ones several per warp, longer ones a warp or
// a block each, or several blocks.
//
// Of what a loop that reads reaches on an H200:         sum f32
//                                                       [65536, 1024]  [8192, 8192]   all   bf16
//   four runs per thread, eight in short rows                    0.89          0.96  0.93
//   eight; a row of 129 runs or more at least a warp's           0.95          0.96  0.92   0.93
//   loads that leave the caches first                            0.98          0.97  0.95   0.95
// us:
//   f64 [4096, 8192]   two blocks per row and a launch 80; 16 warps per row 66 (63 now; where loads
//                      leave the caches first registers do not suffice, 71)
//   argmax             a chain of comparisons over all of a thread's elements 78; over each run 66
// A second turn of a thread over its row costs 5 to 8: blocks of more warps are better. bf16 in
// all, two launches: 0.87; what needs no memory done before the wait for the launch before 0.88;
// the loads above 0.92.
#pragma once

#include "planck/loops/rows/cuda/dense_rows.cuh"
#include "planck/ops/reduce/cuda/short_rows.cuh"

namespace planck::reduce_device {

// Where a warp of a long row works.
struct RowPlace {
  int own, lane;                     // warp of the group's
  std::int64_t group, chunk, first;  // first: run of this lane
  bool inside;

  template <class F>
  __device__ __forceinline__ explicit RowPlace(const RowArguments<F>& a) {
    const int warp = static_cast<int>(threadIdx.x) / 32, log2_warps = __ffs(a.warps) - 1;
    lane = static_cast<int>(threadIdx.x) % 32;
    own = warp & (a.warps - 1);
    chunk = 0;
    if (a.chunks > 1) {
      const auto chunks = static_cast<unsigned>(a.chunks);
      group = blockIdx.x / chunks;
      chunk = blockIdx.x % chunks;
    } else {
      group = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32 >> log2_warps) +
              (warp >> log2_warps);
    }
    first = (chunk * a.warps + own) * (static_cast<std::int64_t>(a.turns) * kWarpRuns) + lane;
    inside = group < a.groups;
  }
  template <class F>
  __device__ __forceinline__ void put(const RowArguments<F>& a, const typename F::A& sum) const {
    if (own == 0 && lane == 0 && inside) a.sink.put(group, group * a.padded_chunks + chunk, sum);
  }
};

// Runs k * 32 + lane of a warp: what becomes of them where order matters,
template <class F>
struct OrderedRuns {
  using A = typename F::A;
  using Many = A[kRowDigits][1];  // an array of its own, for it is not in registers
  A v[kRowRuns], few[1][1], sum[1] = {F::nothing()};

  __device__ __forceinline__ void none(int k) { v[k] = F::nothing(); }
  __device__ __forceinline__ void pack(const RowArguments<F>& a, int k, int,
                                       const Pack<F::kRunBytes>& p) {
    v[k] = join_pack<F>(a, p, 0);
  }
  // Elements one by one, element(e) of the first n.
  template <class E>
  __device__ __forceinline__ void singles(const RowArguments<F>& a, int k, int, int n,
                                          const E& element) {
    A value[F::kRun];
#pragma unroll
    for (int e = 0; e < F::kRun; ++e)
      value[e] = e < n ? F::lift(loaded(element(e)), a.flip, 0) : F::nothing();
    v[k] = join_run<typename F::Join>(value);
  }
  __device__ __forceinline__ void end_turn(int turn, int turns, Many& many) {
    sum[0] = row_device::join_lanes<typename F::Join, kRowRuns, A>(v);
    if (turns > 1) join_turn<typename F::Join>(turn, sum, few, many);
  }
  __device__ __forceinline__ A result(std::int64_t, bool) const { return sum[0]; }
};
// and where it does not.
template <class F>
struct SeenRuns {
  using A = typename F::A;
  struct Many {};
  Seen<F> seen;

  __device__ __forceinline__ void none(int) {}
  __device__ __forceinline__ void pack(const RowArguments<F>& a, int, int place,
                                       const Pack<F::kRunBytes>& p) {
    if constexpr (F::kSearches) {  // chains of a run each, not one of all
      Seen<F> run;
#pragma unroll
      for (int e = 0; e < F::kRun; ++e) run.take(element<typename F::Stored>(p, e), e, a.flip);
      seen.join(run, place);
    } else {
#pragma unroll
      for (int e = 0; e < F::kRun; ++e)
        seen.take(element<typename F::Stored>(p, e), place + e, a.flip);
    }
  }
  template <class E>
  __device__ __forceinline__ void singles(const RowArguments<F>& a, int, int place, int n,
                                          const E& element) {
#pragma unroll
    for (int e = 0; e < F::kRun; ++e)
      if (e < n) seen.take(loaded(element(e)), place + e, a.flip);
  }
  __device__ __forceinline__ void end_turn(int, int, Many&) {}
  __device__ __forceinline__ A result(std::int64_t first, bool any) const {
    const A own[1] = {seen.result(first, any)};
    return join_warp<typename F::Join, 1, A>(own);
  }
};

// A block for each chunk of a group, or for several groups; each warp goes over consecutive runs.
template <class F>
__global__ void __launch_bounds__(32 * kMostRowWarps, 1) long_rows(const RowArguments<F> a) {
  using A = typename F::A;
  using J = typename F::Join;
  __shared__ A shared[kMostRowWarps];
  const RowPlace at(a);
  const std::int64_t base = at.inside ? a.kept.offset(at.group) : 0;
  follow();
  const std::int64_t runs = at.inside ? a.runs - at.first : 0;
  const std::int64_t whole = at.inside ? a.whole - at.first : 0;
  using Runs = std::conditional_t<F::kAnyOrder, SeenRuns<F>, OrderedRuns<F>>;
  Runs seen;
  typename Runs::Many many;
#pragma unroll 1
  for (int turn = 0; turn < a.turns; ++turn) {
    const std::int64_t run = static_cast<std::int64_t>(turn) * kWarpRuns;
    const auto place = [&](int k) { return (turn * kWarpRuns + k * 32) * F::kRun; };
    const typename F::Stored* p = a.in + base + (at.first + run) * F::kRun;
    Pack<F::kRunBytes> packs[kRowRuns];
    if (run + kWarpRuns - 32 < whole) {
#pragma unroll
      for (int k = 0; k < kRowRuns; ++k)
        packs[k] = load_pack<F::kRunBytes, kStreams<F>>(p + k * 32 * F::kRun, 0);
#pragma unroll
      for (int k = 0; k < kRowRuns; ++k) seen.pack(a, k, place(k), packs[k]);
    } else {
#pragma unroll
      for (int k = 0; k < kRowRuns; ++k)
        if (run + k * 32 < whole)
          packs[k] = load_pack<F::kRunBytes, kStreams<F>>(p + k * 32 * F::kRun, 0);
#pragma unroll
      for (int k = 0; k < kRowRuns; ++k) {
        seen.none(k);
        if (run + k * 32 < whole)
          seen.pack(a, k, place(k), packs[k]);
        else if (run + k * 32 == whole && whole < runs)  // the last run, not a whole one
          seen.singles(a, k, place(k), static_cast<int>(a.length % F::kRun),
                       [&](int e) { return p[k * 32 * F::kRun + e]; });
      }
    }
    seen.end_turn(turn, a.turns, many);
  }
  at.put(a, join_warps<J>(seen.result(at.first * F::kRun, runs > 0), a.warps, shared));
}

// Groups whose elements are not 16-byte runs behind one another.
template <class F>
__global__ void __launch_bounds__(32 * kMostRowWarps, 1) strided_rows(const RowArguments<F> a) {
  using A = typename F::A;
  using J = typename F::Join;
  constexpr int kRuns = 4;  // of a thread at once
  static_assert(kRowRuns % kRuns == 0);
  __shared__ A shared[kMostRowWarps];
  const RowPlace at(a);
  const std::int64_t base = at.inside ? a.kept.offset(at.group) : 0;
  follow();
  [[maybe_unused]] A digits[kRowDigits];
  A sum = F::nothing();
#pragma unroll 1
  for (int turn = 0; turn < a.turns * (kRowRuns / kRuns); ++turn) {
    A v[kRuns];
#pragma unroll
    for (int k = 0; k < kRuns; ++k) {
      const std::int64_t run = at.first + (static_cast<std::int64_t>(turn) * kRuns + k) * 32;
      v[k] = at.inside && run < a.runs ? load_run<F>(a, base, run) : F::nothing();
    }
    if constexpr (F::kAnyOrder) {
#pragma unroll
      for (int k = 0; k < kRuns; ++k) sum = F::then(sum, v[k]);
    } else {
      sum = join_warp<J>(v);
      int d = 0;
      for (; (turn >> d) & 1; ++d) sum = J::template of<A>(digits[d], sum);
      digits[d] = sum;
    }
  }
  if constexpr (F::kAnyOrder) {
    const A own[1] = {sum};
    sum = join_warp<J, 1, A>(own);
  }
  at.put(a, join_warps<J>(sum, a.warps, shared));
}

struct RowCut {
  bool is_short;
  int log2_team = 0, warps = 1, turns = 1;
  std::int64_t chunks = 1;

  static RowCut make(std::int64_t groups, std::int64_t runs) {
    RowCut c;
    c.is_short = runs <= kShortRuns;
    if (c.is_short) {
      while ((1 << c.log2_team) < runs) ++c.log2_team;
      return c;
    }
    const auto chunk = [&] { return static_cast<std::int64_t>(c.warps) * kWarpRuns * c.turns; };
    const auto blocks = [&] { return groups * ceil_div(runs, chunk()); };
    const int most = groups >= reduce_cuts::kEnoughGroups ? kMostRowWarps : kRowWarps;
    while (c.warps < most && chunk() < runs) c.warps *= 2;
    while (chunk() < runs && blocks() > reduce_cuts::kEnoughBlocks) c.turns *= 2;
    c.chunks = ceil_div(runs, chunk());
    return c;
  }
};

template <class F>
Result<void> launch_rows(const Stream& stream, RowArguments<F> a, bool first, const RowCut& cut) {
  a.log2_team = cut.log2_team;
  a.warps = cut.warps;
  a.turns = cut.turns;
  a.chunks = cut.chunks;
  const int threads = 32 * (cut.warps > kRowWarps ? cut.warps : kRowWarps);
  const std::int64_t warp_groups = kWarpTeams >> cut.log2_team;
  const std::int64_t blocks = cut.is_short ? ceil_div(ceil_div(a.groups, warp_groups), kRowWarps)
                              : cut.chunks == 1 ? ceil_div(a.groups, threads / 32 / cut.warps)
                                                : a.groups * cut.chunks;
  const auto kernel = cut.is_short ? short_rows<F> : a.dense ? long_rows<F> : strided_rows<F>;
  return first ? launch(stream, "reduce rows", kernel, blocks, threads, a)
               : launch_next(stream, "reduce rows", kernel, blocks, threads, a);
}

}  // namespace planck::reduce_device
