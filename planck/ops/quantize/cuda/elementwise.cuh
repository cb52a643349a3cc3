// Loops over the elementwise ops on dense operands.
//
//   runs      a run lies within one group ((i / inner) % channels, inner % R == 0). A warp takes
//             K · 32 consecutive runs, its lanes neighbours: coalesced, and with long groups all of
//             a thread's runs share one cell.
//   columns   one group per column (inner == 1, channels % R == 0). A thread stays with its R
//             columns over kRows rows, kBatch at a time; the next batch is prefetched
//             (kept_columns.cuh). Groups kept in registers gave 0.69 of bare movement for bf16.
#pragma once

#include "planck/loops/cuda/division.cuh"
#include "planck/ops/quantize/cuda/kept_columns.cuh"
#include "planck/ops/quantize/cuda/units.cuh"

namespace planck::quantize_device {

// The group of a run: (run / inner) % channels, inner in runs.
struct GroupMap {
  std::int64_t inner, channels;
  Divisor inner_divisor, channels_divisor;
  bool small;  // all runs have 31-bit numbers
  bool wrap;   // groups repeat: there is an outer extent

  __device__ __forceinline__ std::int64_t operator()(std::int64_t run) const {
    if (small) {
      const std::uint32_t u = inner_divisor.quotient(static_cast<std::uint32_t>(run));
      return wrap ? channels_divisor.remainder(u) : u;
    }
    return run / inner % channels;
  }
};

// The last elements of a tensor that is one group, fewer than a run.
template <class Op>
__device__ __forceinline__ void map_tail(const Arguments<typename Op::Element>& args,
                                         std::int64_t first, int tail) {
  const Cell<typename Op::Element> cell = make_cell_of<Op>(load_stored<Op>(args, 0), args.grid);
#pragma unroll 1
  for (std::int64_t i = first; i < first + tail; i += kUnit<Op>) {
    Compute<typename Op::Element> x[kUnit<Op>], y[kUnit<Op>];
    load_unit<Op>(args, i, 1, i, 1, x, y);
    map_unit<Op>(args, x, y, i, [&](int) { return cell; });
  }
}

// A tail has a block of its own, the last, so that it costs the others nothing.
template <class Op, class Tune>
__global__ void __launch_bounds__(kThreads, Tune::kRunBlocks)
    runs_kernel(const __grid_constant__ Arguments<typename Op::Element> args,
                const __grid_constant__ GroupMap map, std::int64_t runs, int tail) {
  constexpr int R = Tune::R, K = Tune::K;
  if (tail > 0 && blockIdx.x + 1 == gridDim.x) {
    if (threadIdx.x == 0) map_tail<Op>(args, runs * R, tail);
    return;
  }
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads * K) +
                             threadIdx.x / 32 * (32 * K) + threadIdx.x % 32;
  if (first >= runs) return;
  RunPack<typename Op::A, R> a[K];
  RunPack<typename Op::B, R> b[K];
  std::int64_t group[K];
  StoredGroup<typename Op::Element> stored[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const std::int64_t run = first + k * 32;
    if (run < runs) load_run<Op, R, Tune::kStreaming>(args, run, a[k], b[k]);
    group[k] = map(run < runs ? run : first);
    stored[k] = load_stored<Op>(args, group[k]);
  }
  Cell<typename Op::Element> cell;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const std::int64_t run = first + k * 32;
    if (run >= runs) return;
    if (k == 0 || group[k] != group[k - (k > 0)]) cell = make_cell_of<Op>(stored[k], args.grid);
    store_pack<Tune::kStreaming>(args.out, run, map_run<Op, R>(a[k], b[k], cell, args.grid));
  }
}

// A block: kThreads / width rows at a time, `width` column runs of each.
struct ColumnMap {
  std::int64_t rows, runs;     // runs: column runs per row
  std::int64_t column_blocks;  // blocks side by side
  int width, lanes;            // column runs per block, rows it works on at a time
};

template <Way kWay, class Op, int R, int kBatch>
__device__ __forceinline__ void map_columns(const KeptColumns<typename Op::Element, R>& kept,
                                            const GridAttributes& grid, const std::uint32_t* zeros,
                                            const RunPack<typename Op::A, R> (&a)[kBatch],
                                            const RunPack<typename Op::B, R> (&b)[kBatch],
                                            RunPack<typename Op::Out, R> (&out)[kBatch]) {
  using T = typename Op::Element;
  using C = Compute<T>;
#pragma unroll
  for (int e = 0; e < R; e += 2) {
    Cell<T> cell[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) cell[i] = kept.cell(e + i, grid);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const auto element = [&](int i) {
        return Op::template element<kWay>(value_at<typename Op::A, C>(a[k], e + i, grid),
                                          value_at<typename Op::B, C>(b[k], e + i, grid), cell[i],
                                          grid);
      };
      put_pair<Op, Op::kNan, R>(out[k], e, element(0), element(1), zeros);
    }
  }
#pragma unroll
  for (int k = 0; k < kBatch; ++k) finish_run<Op, R>(out[k], grid);
}

template <class Op, class Tune>
__global__ void __launch_bounds__(kThreads, Tune::kColumnBlocks)
    columns_kernel(const __grid_constant__ Arguments<typename Op::Element> args,
                   const __grid_constant__ ColumnMap map) {
  using T = typename Op::Element;
  using S = typename Op::Out;
  constexpr int R = Tune::kColumns, kBatch = Tune::kBatch;
  __shared__ KeptColumns<T, R> kept;
  const int lane = static_cast<int>(threadIdx.x) / map.width;
  const std::int64_t tile = blockIdx.x / map.column_blocks;
  const std::int64_t column =
      (blockIdx.x - tile * map.column_blocks) * map.width + threadIdx.x % map.width;
  if (lane >= map.lanes || column >= map.runs) return;
  const auto stored = [&](int e) { return load_stored<Op>(args, column * R + e); };
  const auto group_of = [&](int e) { return make_cell_of<Op>(stored(e), args.grid); };
  std::uint32_t zeros[RunPack<S, R>::kWords] = {};
  bool quick = true;
  StoredGroup<T> groups[R];
#pragma unroll
  for (int e = 0; e < R; ++e) groups[e] = stored(e);
#pragma unroll
  for (int e = 0; e < R; ++e) {
    const Cell<T> c = make_cell_of<Op>(groups[e], args.grid);
    quick = quick && c.quick;
    kept.keep(e, c);
    if constexpr (kIsInteger<S>)
      zeros[e * kBits<S> / 32] +=
          (static_cast<std::uint32_t>(c.z) + static_cast<std::uint32_t>(args.grid.bias))
          << (e * kBits<S> % 32);
  }
  const std::int64_t first = tile * (Tune::kRows * map.lanes) + lane;
  const int rows = static_cast<int>(
      min((map.rows - first + map.lanes - 1) / map.lanes, std::int64_t{Tune::kRows}));
  const std::int64_t start = first * map.runs + column, step = map.lanes * map.runs;
  // The next rows are loaded while these are worked on.
  ColumnCursor<kRunBytes<typename Op::A, R>> a_at(args.a, start, step);
  ColumnCursor<kRunBytes<typename Op::B, R>> b_at(args.b, start, step);
  ColumnCursor<kRunBytes<S, R>> out_at(args.out, start, step);
  RunPack<typename Op::A, R> a[kBatch] = {}, a_next[kBatch] = {};
  RunPack<typename Op::B, R> b[kBatch] = {}, b_next[kBatch] = {};
  constexpr bool kB = !std::is_same_v<typename Op::B, None>;
  const auto load_next = [&](int left) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (k >= left) continue;
      a_next[k] = a_at.template load<false>(k);
      if constexpr (kB) b_next[k] = b_at.template load<false>(k);
    }
    a_at.advance(kBatch);
    if constexpr (kB) b_at.advance(kBatch);
  };
  load_next(rows);
#pragma unroll 1
  for (int left = rows; left > 0; left -= kBatch, out_at.advance(kBatch)) {
    bool careful = !quick;
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      a[k] = a_next[k];
      b[k] = b_next[k];
    }
    load_next(left - kBatch);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) careful |= any_delicate<Op, R>(a[k], b[k], args.grid);
    if (careful) {  // rare: once more, a row at a time
#pragma unroll 1
      for (int k = 0; k < kBatch && k < left; ++k) {
        const std::int64_t run = start + (rows - left + k) * step;
        RunPack<typename Op::A, R> a_row;
        RunPack<typename Op::B, R> b_row;
        load_run<Op, R, false>(args, run, a_row, b_row);
        store_pack<false>(args.out, run,
                          map_careful<Op, R>(a_row, b_row, args.grid, zeros, group_of));
      }
      continue;
    }
    RunPack<S, R> out[kBatch];
    if (args.grid.reciprocal)
      map_columns<Way::reciprocal, Op, R, kBatch>(kept, args.grid, zeros, a, b, out);
    else
      map_columns<Way::divide, Op, R, kBatch>(kept, args.grid, zeros, a, b, out);
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (k < left) out_at.template store<false>(k, out[k]);
  }
}

}  // namespace planck::quantize_device
