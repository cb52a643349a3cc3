// Long groups side by side on the device: lines of 128 bytes, all rows of them to one block where
// that makes enough blocks. A warp goes down 64 rows at a time, 16 to each of its four slots; while
// eight of them are added up the next eight are on their way to registers.
//
// Of what a loop that reads reaches on an H200, at [8192, 8192]:  f32 sum   max  argmax  bf16 sum
//   512 rows per block, eight loaded at once, then a launch          0.79  0.78    0.59      0.65
//   all rows to a block; their turns joined in registers, rows on
//   their way through shared memory                                  0.93  0.93    0.90      0.83
//   on their way to registers, slots of a warp joined by shuffles    0.89  0.95    0.92      0.86
//   loads that leave the caches first, and none of them waits to
//   know whether its row is there                                    0.94  0.95    0.94      0.91
// Blocks that join in clusters of 2 to 8 take 3 to 20 us longer. f32 [65536, 1024], chunks and a
// launch: 0.85, now 0.93.
#pragma once

#include "planck/ops/reduce/cuda/columns.cuh"

namespace planck::reduce_device {

inline constexpr int kTallWidth = 8, kTallSlots = 32 / kTallWidth;  // of a warp
inline constexpr int kTallBatch = 8, kTallRows = 2 * kTallBatch;    // of a slot
inline constexpr int kTallUnit = kTallSlots * kTallRows;            // of a warp
inline constexpr int kTallWarps = 16;                               // of a block, or half as many
inline constexpr std::int64_t kTallPlaces = 132;                    // for blocks, on an H200

// Joins the slots of a warp. Each step hands half of a lane's columns to its partner: what is left
// are columns from lane_column() on.
template <class J, int kRun, class A>
__device__ __forceinline__ void join_slots(A (&v)[kRun]) {
#pragma unroll
  for (int bit = kTallWidth, left = kRun / 2; bit < 32; bit *= 2, left /= 2) {
    if (left == 0) v[0] = J::template of<A>(v[0], across(v[0], bit));
#pragma unroll
    for (int e = 0; e < left; ++e) v[e] = exchanged<J>(v[e], v[e + left], bit);
  }
}
template <int kRun>
__device__ __forceinline__ int lane_column() {
  int column = static_cast<int>(threadIdx.x) % kTallWidth * kRun;
#pragma unroll
  for (int bit = kTallWidth, left = kRun / 2; bit < 32; bit *= 2, left /= 2)
    if (threadIdx.x & bit) column += left;
  return column;
}

template <class F, int kRun>
__global__ void __launch_bounds__(32 * kTallWarps, 1) tall_columns(const ColumnArguments<F> a) {
  using A = typename F::A;
  using J = typename F::Join;
  using Stored = typename F::Stored;
  constexpr int kBytes = kRun * static_cast<int>(sizeof(Stored));
  constexpr int kLeft = kRun > kTallSlots ? kRun / kTallSlots : 1;  // columns of a lane in the end
  constexpr int kLine = kTallWidth * kRun;
  using Batch = Pack<kBytes>[kTallBatch];
  __shared__ A shared[kTallWarps][kLine];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const unsigned tile = blockIdx.x % a.tiles, block = blockIdx.x / a.tiles;
  const unsigned chunk = a.chunks > 1 ? block % a.chunks : 0;
  const std::int64_t outer = a.chunks > 1 ? block / a.chunks : block;
  const std::int64_t run = static_cast<std::int64_t>(tile) * kTallWidth + lane % kTallWidth;
  const std::int64_t first =
      (static_cast<std::int64_t>(chunk) * warps + warp) * a.turns * kTallUnit +
      lane / kTallWidth * kTallRows;
  const std::int64_t step = a.reduced.stride[0];
  const Stored* next =
      a.in + a.outer_map.offset(outer) + run * kRun + a.reduced.start + first * step;
  const std::int64_t rows = run < a.runs ? a.length - first : 0;
  follow();
  [[maybe_unused]] Seen<F> seen[kRun];
  A sum[kRun];
  [[maybe_unused]] A kept[kLeft], few[2][kLeft], many[16][kLeft];
  // there: rows of a batch, or more
  const auto load = [&](Batch& to, auto there) {
#pragma unroll
    for (int k = 0; k < kTallBatch; ++k, next += step)
      if (k < there) to[k] = load_pack<kBytes, true>(next, 0);
  };
  const auto take = [&](const Batch& packs, int place, auto there, A(&to)[kRun]) {
#pragma unroll
    for (int e = 0; e < kRun; ++e) {
      if constexpr (F::kAnyOrder) {
#pragma unroll
        for (int k = 0; k < kTallBatch; ++k)
          if (k < there) seen[e].take(element<Stored>(packs[k], e), place + k, a.flip);
      } else {
        A v[kTallBatch];
#pragma unroll
        for (int k = 0; k < kTallBatch; ++k)
          v[k] = k < there ? F::lift(element<Stored>(packs[k], e), a.flip, 0) : F::nothing();
        to[e] = join_run<J>(v);
      }
    }
  };
  // left(place): rows from there on
  const auto go_down = [&](const auto& left) {
    Batch packs[2];
    load(packs[0], left(0));
#pragma unroll 1
    for (int turn = 0; turn < a.turns; ++turn) {
      const int place = turn * kTallUnit;
      A later[kRun];
      load(packs[1], left(place + kTallBatch));
      take(packs[0], place, left(place), sum);
      next += (kTallUnit - kTallRows) * step;
      if (turn + 1 < a.turns) load(packs[0], left(place + kTallUnit));
      take(packs[1], place + kTallBatch, left(place + kTallBatch), later);
      if constexpr (!F::kAnyOrder) {
#pragma unroll
        for (int e = 0; e < kRun; ++e) sum[e] = J::template of<A>(sum[e], later[e]);
        join_slots<J>(sum);
#pragma unroll
        for (int e = 0; e < kLeft; ++e) kept[e] = sum[e];
        join_turn<J>(turn, kept, few, many);
      }
    }
  };
  const std::int64_t own = static_cast<std::int64_t>(a.turns - 1) * kTallUnit + kTallRows;
  if (__all_sync(~0u, rows >= own))
    go_down([](int) { return std::integral_constant<int, kTallBatch>{}; });
  else
    go_down([&](int place) {
      const std::int64_t left = rows - place;
      return left < 0 ? 0 : left < kTallBatch ? static_cast<int>(left) : kTallBatch;
    });
  if constexpr (F::kAnyOrder) {
#pragma unroll
    for (int e = 0; e < kRun; ++e) sum[e] = seen[e].result(first, rows > 0);
    join_slots<J>(sum);
  }
#pragma unroll
  for (int e = 0; e < kLeft; ++e)
    shared[warp][lane_column<kRun>() + e] = F::kAnyOrder ? sum[e] : kept[e];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kLine; i += static_cast<int>(blockDim.x)) {
    const std::int64_t at = static_cast<std::int64_t>(tile) * kLine + i;
    if (at >= a.inner) continue;
    A v[kTallWarps];
#pragma unroll
    for (int k = 0; k < kTallWarps; ++k) v[k] = k < warps ? shared[k][i] : F::nothing();
    a.sink.put(outer * a.inner + at, (outer * a.chunks + chunk) * a.inner + at, join_run<J>(v));
  }
}

// Whether lines are wide and long enough.
template <class F>
bool is_tall(const ColumnArguments<F>& a) {
  return a.length >= kTallWarps * kTallUnit && a.inner >= 4 * kTallWidth * F::kRun;
}

// Fills in how the work is cut; returns the warps of a block. One launch is enough where blocks of
// all rows fill the device a whole number of times, or nearly, and few of their rows are missing.
template <class F>
int cut_tall_columns(ColumnArguments<F>& a) {
  a.runs = a.inner / F::kRun;
  a.tiles = static_cast<unsigned>(ceil_div(a.runs, kTallWidth));
  a.turns = a.chunks = 1;
  const std::int64_t lines = a.outer * a.tiles;
  const auto fill = [&](std::int64_t places) {
    return 10 * lines >= 9 * ceil_div(lines, places) * places;
  };
  const bool once = lines <= kTallPlaces && fill(kTallPlaces);
  const int warps = once ? kTallWarps : kTallWarps / 2;
  const auto rows = [&] { return static_cast<std::int64_t>(a.turns) * warps * kTallUnit; };
  if (once || fill(2 * kTallPlaces)) {
    while (rows() < a.length) a.turns *= 2;
    if (3 * rows() <= 4 * a.length) return warps;
    a.turns = 1;
  }
  const auto chunks = [&] { return ceil_div(a.length, rows()); };
  while (chunks() > 1 && (lines * chunks() > reduce_cuts::kEnoughTallBlocks ||
                          chunks() > reduce_cuts::kLeastColumnRows))  // one launch joins so many
    a.turns *= 2;
  a.chunks = static_cast<unsigned>(chunks());
  return warps;
}

template <class F>
Result<void> launch_tall_columns(const Stream& stream, const ColumnArguments<F>& a, int warps) {
  const std::int64_t blocks = a.outer * a.chunks * a.tiles;
  constexpr auto kernel = tall_columns<F, F::kRun>;
  return launch(stream, "reduce tall columns", kernel, blocks, 32 * warps, a);
}

}  // namespace planck::reduce_device
