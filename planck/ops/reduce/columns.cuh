// Groups side by side on the device: a thread holds a run of columns and goes down the rows.
#pragma once

#include "planck/ops/reduce/rows.cuh"

namespace planck::reduce_device {

inline constexpr int kColumnThreads = 256, kColumnRows = 64;  // rows of a turn

// x as [outer, length, inner].
template <class F>
struct ColumnArguments {
  const typename F::Stored* in;
  AxisMap outer_map, reduced;
  std::int64_t outer, length, inner, runs;  // runs of columns
  const typename F::C* parameters;
  typename F::K flip;
  FoldSink<F> sink;
  int width, slots;  // threads of a block side by side, and below one another; the rest are outers
  int turns;         // of kColumnRows rows a slot, a power of two
  std::int64_t tiles, chunks;
};

// Columns of a thread: 16 bytes, four at most.
template <class F>
inline constexpr int kColumnRun = F::kRun < 4 ? F::kRun : 4;

template <class F, int kRun>
__global__ void __launch_bounds__(kColumnThreads, 2) columns(const ColumnArguments<F> a) {
  using A = typename F::A;
  using J = typename F::Join;
  __shared__ A shared[kColumnThreads * kRun];
  follow();
  const int column = static_cast<int>(threadIdx.x) % a.width;
  const int slot = static_cast<int>(threadIdx.x) / a.width % a.slots;
  const int sub = static_cast<int>(threadIdx.x) / (a.width * a.slots);
  const int subs = kColumnThreads / (a.width * a.slots);
  std::int64_t block = blockIdx.x;
  const std::int64_t tile = block % a.tiles;
  block /= a.tiles;
  const std::int64_t chunk = block % a.chunks;
  const std::int64_t outer = block / a.chunks * subs + sub;
  const std::int64_t run = tile * a.width + column;
  const bool inside = outer < a.outer && run < a.runs;
  const std::int64_t group = outer * a.inner + run * kRun;
  const typename F::Stored* base = a.in + (inside ? a.outer_map.offset(outer) + run * kRun : 0);
  typename F::C parameter[kRun] = {};
  if constexpr (F::kGiven)
    if (inside)
#pragma unroll
      for (int e = 0; e < kRun; ++e) parameter[e] = a.parameters[group + e];
  std::int64_t row = (chunk * a.slots + slot) * (static_cast<std::int64_t>(a.turns) * kColumnRows);
  [[maybe_unused]] A digits[16][kRun];
  A sum[kRun];
#pragma unroll
  for (int e = 0; e < kRun; ++e) sum[e] = F::nothing();
#pragma unroll 1
  for (int turn = 0; turn < a.turns; ++turn) {
    [[maybe_unused]] A eight[kRun], sixteen[kRun], half[kRun];
#pragma unroll 1
    for (int i = 0; i < kColumnRows / 8; ++i, row += 8) {
      constexpr int kBytes = kRun * static_cast<int>(sizeof(typename F::Stored));
      Pack<kBytes> packs[8];
      const std::int64_t left = inside ? a.length - row : 0;
      if (left >= 8 && a.reduced.rank == 1) {
        const typename F::Stored* at = base + a.reduced.offset(row);
#pragma unroll
        for (int k = 0; k < 8; ++k)
          packs[k] = load_pack<kBytes, false>(at + k * a.reduced.stride[0], 0);
      } else {
#pragma unroll
        for (int k = 0; k < 8; ++k)
          if (k < left) packs[k] = load_pack<kBytes, false>(base + a.reduced.offset(row + k), 0);
      }
      const auto value = [&](int k, int e) {
        return k < left ? F::lift(element<typename F::Stored>(packs[k], e), parameter[e], a.flip,
                                  row + k)
                        : F::nothing();
      };
      if constexpr (F::kSearches) {
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          typename F::C x[8];
#pragma unroll
          for (int k = 0; k < 8; ++k) x[k] = element<typename F::Stored>(packs[k], e);
          if (left > 0)
            sum[e] =
                F::then(sum[e], F::best_of(x, left < 8 ? static_cast<int>(left) : 8, a.flip, row));
        }
      } else if constexpr (F::kAnyOrder) {
#pragma unroll
        for (int k = 0; k < 8; ++k)
#pragma unroll
          for (int e = 0; e < kRun; ++e) sum[e] = F::then(sum[e], value(k, e));
      } else {
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          const auto pair = [&](int k) { return J::template of<A>(value(k, e), value(k + 1, e)); };
          A s = J::template of<A>(J::template of<A>(pair(0), pair(2)),
                                  J::template of<A>(pair(4), pair(6)));
          if ((i & 1) == 0) {
            eight[e] = s;
          } else {
            s = J::template of<A>(eight[e], s);
            if ((i & 2) == 0) {
              sixteen[e] = s;
            } else {
              s = J::template of<A>(sixteen[e], s);
              if ((i & 4) == 0)
                half[e] = s;
              else
                sum[e] = J::template of<A>(half[e], s);
            }
          }
        }
      }
    }
    if constexpr (!F::kAnyOrder) {
      int d = 0;
      for (; (turn >> d) & 1; ++d)
#pragma unroll
        for (int e = 0; e < kRun; ++e) sum[e] = J::template of<A>(digits[d][e], sum[e]);
      if (turn + 1 < a.turns)
#pragma unroll
        for (int e = 0; e < kRun; ++e) digits[d][e] = sum[e];
    }
  }
  if (a.slots > 1) {
#pragma unroll
    for (int e = 0; e < kRun; ++e) shared[threadIdx.x * kRun + e] = sum[e];
    for (int half = 1; half < a.slots; half *= 2) {
      __syncthreads();
      if ((slot & (2 * half - 1)) == 0)
#pragma unroll
        for (int e = 0; e < kRun; ++e)
          shared[threadIdx.x * kRun + e] = J::template of<A>(
              shared[threadIdx.x * kRun + e], shared[(threadIdx.x + half * a.width) * kRun + e]);
    }
  }
  if (slot != 0 || !inside) return;
#pragma unroll
  for (int e = 0; e < kRun; ++e)
    a.sink.put(group + e, (outer * a.chunks + chunk) * a.inner + run * kRun + e,
               a.slots > 1 ? shared[threadIdx.x * kRun + e] : sum[e], a.parameters);
}

template <class F, int kRun>
Result<void> launch_columns_of(const Stream& stream, const ColumnArguments<F>& a, bool first) {
  const int subs = kColumnThreads / (a.width * a.slots);
  const std::int64_t blocks = ceil_div(a.outer, subs) * a.chunks * a.tiles;
  return first ? launch(stream, "reduce columns", columns<F, kRun>, blocks, kColumnThreads, a)
               : launch_next(stream, "reduce columns", columns<F, kRun>, blocks, kColumnThreads, a);
}

// Fills in how the work is cut.
template <class F>
void cut_columns(ColumnArguments<F>& a, int run) {
  a.runs = a.inner / run;
  a.width = 1;
  while (a.width < 32 && a.width < a.runs) a.width *= 2;
  a.slots = 1;
  while (a.slots * a.width < kColumnThreads && a.slots * kColumnRows < a.length) a.slots *= 2;
  while (a.slots * a.width < kColumnThreads && a.width < a.runs) a.width *= 2;
  a.tiles = ceil_div(a.runs, a.width);
  a.turns = 1;
  const auto rows = [&] { return static_cast<std::int64_t>(a.slots) * kColumnRows * a.turns; };
  const std::int64_t across = ceil_div(a.outer, kColumnThreads / (a.width * a.slots)) * a.tiles;
  while (rows() < a.length && a.turns < 32768 &&
         across * ceil_div(a.length, rows()) > reduce_cuts::kEnoughBlocks)
    a.turns *= 2;
  a.chunks = ceil_div(a.length, rows());
}

}  // namespace planck::reduce_device
