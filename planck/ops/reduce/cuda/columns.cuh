// Groups side by side on the device, any number of any length: a thread has a run of columns and
// eight rows of them, loaded at once; threads below one another are joined, and blocks leave what
// they have to another launch. Long and wide ones: tall_columns.cuh.
//
// On an H200, f32, us:                                                                  argmax
//                                          [8192, 8191]  [2^23, 8]  [64, 2^19]  [1024, 1024]
//   a loop that reads                                59         59          31           2.5
//   64 rows per thread, four at once,
//   all to a block                                  240        168          38          13.4
//   this                                            107         73          34           5.8
#pragma once

#include "planck/ops/reduce/cuda/rows.cuh"

namespace planck::reduce_device {

inline constexpr int kColumnThreads = 256;
inline constexpr int kColumnRows = 8;  // of a thread at once

// x as [outer, length, inner].
template <class F>
struct ColumnArguments {
  const typename F::Stored* in;
  AxisMap outer_map, reduced;
  std::int64_t outer, length, inner, runs;  // runs of columns
  typename F::K flip;
  FoldSink<F> sink;
  int log2_width, log2_slots;  // threads of a block side by side, and below one another; the rest
                               // are outers
  int turns;                   // of kColumnRows rows per slot, a power of two
  unsigned tiles, chunks;

  __host__ __device__ int width() const { return 1 << log2_width; }
  __host__ __device__ int slots() const { return 1 << log2_slots; }
  __host__ __device__ int subs() const { return kColumnThreads >> (log2_width + log2_slots); }
};

// A thread's rows in the pairwise order.
template <class F, int kRun>
struct OrderedRows {
  using A = typename F::A;
  using J = typename F::Join;
  using Many = A[16][kRun];  // an array of its own, for it is not in registers
  A few[1][kRun], sum[kRun];

  // The rows of a turn, value(row, column)
  template <class V>
  __device__ __forceinline__ void take(const V& value) {
#pragma unroll
    for (int e = 0; e < kRun; ++e) {
      A v[kColumnRows];
#pragma unroll
      for (int k = 0; k < kColumnRows; ++k) v[k] = value(k, e);
      sum[e] = join_run<J>(v);
    }
  }
};

template <class F, int kRun>
__global__ void __launch_bounds__(kColumnThreads, 3) columns(const ColumnArguments<F> a) {
  using A = typename F::A;
  using J = typename F::Join;
  using Stored = typename F::Stored;
  constexpr int kRows = kColumnRows, kWarps = kColumnThreads / 32;
  constexpr int kBytes = kRun * static_cast<int>(sizeof(Stored));
  __shared__ A shared[kColumnThreads * kRun];
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread & (a.width() - 1);
  const int slot = thread >> a.log2_width & (a.slots() - 1);
  const int sub = thread >> (a.log2_width + a.log2_slots);
  unsigned block = blockIdx.x;
  const unsigned tile = block % a.tiles;
  block /= a.tiles;
  const unsigned chunk = block % a.chunks;
  const std::int64_t first_outer = static_cast<std::int64_t>(block / a.chunks) * a.subs();
  const std::int64_t first_run = static_cast<std::int64_t>(tile) << a.log2_width;
  const std::int64_t outer = first_outer + sub, run = first_run + column;
  const bool inside = outer < a.outer && run < a.runs;
  const std::int64_t first = ((static_cast<std::int64_t>(chunk) << a.log2_slots) + slot) *
                             (static_cast<std::int64_t>(a.turns) * kRows);
  const std::int64_t rows = inside ? a.length - first : 0;
  const Stored* base = a.in + (inside ? a.outer_map.offset(outer) + run * kRun : 0);
  if constexpr (kRun > 1) base += a.reduced.start + first * a.reduced.stride[0];  // rank 1
  follow();
  std::conditional_t<F::kAnyOrder, Seen<F>[kRun], OrderedRows<F, kRun>> seen;
  [[maybe_unused]] typename OrderedRows<F, kRun>::Many many;
#pragma unroll 1
  for (int turn = 0; turn < a.turns; ++turn) {
    const auto take = [&](auto there) {  // so many rows of this turn
      Pack<kBytes> packs[kRows];
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        if (k >= there) continue;
        const std::int64_t row = turn * kRows + k;
        packs[k] = load_pack<kBytes, true>(
            base + (kRun > 1 ? row * a.reduced.stride[0] : a.reduced.offset(first + row)), 0);
      }
      if constexpr (F::kAnyOrder) {
#pragma unroll
        for (int k = 0; k < kRows; ++k)
#pragma unroll
          for (int e = 0; e < kRun; ++e)
            if (k < there) seen[e].take(element<Stored>(packs[k], e), turn * kRows + k, a.flip);
      } else {
        seen.take([&](int k, int e) {
          return k < there ? F::lift(element<Stored>(packs[k], e), a.flip, 0) : F::nothing();
        });
      }
    };
    const std::int64_t left = rows - static_cast<std::int64_t>(turn) * kRows;
    if (left >= kRows)
      take(std::integral_constant<int, kRows>{});
    else
      take(left < 0 ? 0 : static_cast<int>(left));
    if constexpr (!F::kAnyOrder)
      if (a.turns > 1) join_turn<J>(turn, seen.sum, seen.few, many);
  }
  A sum[kRun];
#pragma unroll
  for (int e = 0; e < kRun; ++e) {
    if constexpr (F::kAnyOrder)
      sum[e] = seen[e].result(first, rows > 0);
    else
      sum[e] = seen.sum[e];
  }
  // Slots of a warp, then those of several.
  int joined = 1;
  for (; joined < a.slots() && joined << a.log2_width < 32; joined *= 2)
#pragma unroll
    for (int e = 0; e < kRun; ++e)
      sum[e] = J::template of<A>(sum[e], across(sum[e], joined << a.log2_width));
  const int line = kRun << a.log2_width;  // results side by side
  const auto put = [&](std::int64_t to_outer, int at, const A& value) {
    const std::int64_t to = first_run * kRun + at;
    if (to_outer < a.outer && to < a.inner)
      a.sink.put(to_outer * a.inner + to, (to_outer * a.chunks + chunk) * a.inner + to, value);
  };
  if (joined == a.slots()) {
    if (slot == 0)
#pragma unroll
      for (int e = 0; e < kRun; ++e) put(outer, column * kRun + e, sum[e]);
    return;
  }
  const int all = a.subs() * line;
  if (slot % joined == 0)
#pragma unroll
    for (int e = 0; e < kRun; ++e)
      shared[slot / joined * all + sub * line + column * kRun + e] = sum[e];
  __syncthreads();
  for (int i = thread; i < all; i += kColumnThreads) {
    A v[kWarps];
#pragma unroll
    for (int k = 0; k < kWarps; ++k)
      v[k] = k * joined < a.slots() ? shared[k * all + i] : F::nothing();
    put(first_outer + i / line, i % line, join_run<J>(v));
  }
}

// Fills in how the work is cut: lines of 128 bytes, wider where there are few rows.
template <class F>
void cut_columns(ColumnArguments<F>& a, int run) {
  a.runs = a.inner / run;
  const int line = 128 / (run * static_cast<int>(sizeof(typename F::Stored)));
  a.log2_width = a.log2_slots = 0;
  a.turns = 1;
  const auto room = [&] { return a.subs() > 1; };
  while (room() && a.width() < line && a.width() < a.runs) ++a.log2_width;
  while (room() && a.slots() * kColumnRows < a.length) ++a.log2_slots;
  while (room() && a.width() < a.runs) ++a.log2_width;
  a.tiles = static_cast<unsigned>(ceil_div(a.runs, a.width()));
  const auto rows = [&] { return std::int64_t{kColumnRows} * a.slots() * a.turns; };
  const std::int64_t across = ceil_div(a.outer, a.subs()) * a.tiles;
  const auto blocks = [&] { return across * ceil_div(a.length, rows()); };
  while (rows() < a.length && a.turns < 32768 &&
         (rows() < reduce_cuts::kLeastColumnRows || blocks() > reduce_cuts::kEnoughColumnBlocks))
    a.turns *= 2;
  a.chunks = static_cast<unsigned>(ceil_div(a.length, rows()));
}

template <class F, int kRun>
Result<void> launch_columns(const Stream& stream, const ColumnArguments<F>& a, bool first) {
  const std::int64_t blocks = ceil_div(a.outer, a.subs()) * a.chunks * a.tiles;
  return first ? launch(stream, "reduce columns", columns<F, kRun>, blocks, kColumnThreads, a)
               : launch_next(stream, "reduce columns", columns<F, kRun>, blocks, kColumnThreads, a);
}

}  // namespace planck::reduce_device
