// Loops over the elementwise ops of the family on the device.
//
// A thread works on runs: R consecutive elements, 16 bytes of the widest operand or more. Three
// kernels, one launch each:
//
//   runs      dense operands, a run lies within one group ((i / inner) % channels, inner % R == 0).
//             A warp takes K · 32 consecutive runs, its lanes neighbours: coalesced, and with long
//             groups all of a thread's runs share one cell.
//   columns   dense operands, one group a column (inner == 1, channels % R == 0). A thread keeps
//   the
//             cells of its R columns over kRows rows.
//   strided   everything else, an element (a pair where outputs are packed) at a time.
#pragma once

#include "planck/loops/division.cuh"
#include "planck/loops/nest.h"
#include "planck/ops/quantize/elementwise_ops.cuh"

namespace planck::quantize_device {

inline constexpr int kThreads = 256;

// Shape of the work of one thread: R elements a run, K runs; kRows rows of a column. Streaming
// hints pay where the arithmetic is dense (16-bit floats) and cost 7-10 % for f32.
template <int kR, int kK, bool kStream, int kRowCount = 16>
struct Tuning {
  static constexpr int R = kR, K = kK, kRows = kRowCount;
  static constexpr bool kStreaming = kStream;
};

template <class Op>
struct TuningOf {
  using T = typename Op::Element;
  static constexpr bool kNibbles =
      std::is_same_v<typename Op::A, Nibbles> || std::is_same_v<typename Op::Out, Nibbles>;
  static constexpr bool kTwoInputs = !std::is_same_v<typename Op::B, None>;
  static constexpr int R = sizeof(T) == 2 || kNibbles ? 8 : 4;
  static constexpr int kBytes = R * static_cast<int>(sizeof(T)) * (kTwoInputs ? 2 : 1);
  static constexpr int K = kBytes >= 64 ? 1 : kBytes >= 32 ? 2 : 4;
  using type = Tuning<R, K, sizeof(T) == 2>;
};

template <class T>
struct Arguments {
  const void* a;
  const void* b;
  void* out;
  const T* scale;
  const std::int32_t* zero_point;
  std::int64_t scale_step, zero_point_step;  // from a group to the next
  GridAttributes grid;
};

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

template <class Op>
__device__ __forceinline__ auto load_cell(const Arguments<typename Op::Element>& args,
                                          std::int64_t scale, std::int64_t zero_point) {
  const std::int32_t z = Op::kZeroPoint ? args.zero_point[zero_point] : std::int32_t{0};
  return Op::make(widen(args.scale[scale]), z, args.grid);
}
template <class Op>
__device__ __forceinline__ auto load_group(const Arguments<typename Op::Element>& args,
                                           std::int64_t group) {
  return load_cell<Op>(args, group * args.scale_step, group * args.zero_point_step);
}

template <class S, int R>
using RunPack = Pack<R * kBits<S> / 8>;

template <class S, class C, int R>
__device__ __forceinline__ void unpack_run(const RunPack<S, R>& p, const GridAttributes& grid,
                                           C (&v)[R]) {
  if constexpr (kIsInteger<S>)
    unpack_integers<S>(p, grid, v);
  else if constexpr (!std::is_same_v<S, None>)
    unpack<S, R>(p, v);
}

// (z + bias) << position over the elements of each word.
template <class S, int R, class T, class CellOf>
__device__ __forceinline__ void sum_zeros(const CellOf& cell_of, const GridAttributes& grid,
                                          std::uint32_t (&zeros)[RunPack<S, R>::kWords]) {
  constexpr int kPerWord = 32 / kBits<S>;
#pragma unroll
  for (int w = 0; w < RunPack<S, R>::kWords; ++w) {
    zeros[w] = 0;
#pragma unroll
    for (int e = kPerWord - 1; e >= 0; --e)
      if (w * kPerWord + e < R)
        zeros[w] = (zeros[w] << kBits<S>)+static_cast<std::uint32_t>(cell_of(w * kPerWord + e).z +
                                                                     grid.bias);
  }
}

// One run: cell_of(e) is the cell of its element e, kOne: the same for all. quick: all of them are;
// else careful_cell(e) is asked, with e a variable.
template <class Op, int R, bool kOne, class CellOf, class CarefulCell>
__device__ __forceinline__ RunPack<typename Op::Out, R> map_run(
    const RunPack<typename Op::A, R>& a, const RunPack<typename Op::B, R>& b, bool quick,
    const GridAttributes& grid, const CellOf& cell_of, const CarefulCell& careful_cell) {
  using T = typename Op::Element;
  using C = Compute<T>;
  using Value = std::conditional_t<kIsInteger<typename Op::Out>, std::int32_t, C>;
  C x[R] = {}, y[R] = {};
  unpack_run<typename Op::A>(a, grid, x);
  unpack_run<typename Op::B>(b, grid, y);
  Value v[R];
  if (quick) {
    if (grid.reciprocal) {
#pragma unroll
      for (int e = 0; e < R; ++e)
        v[e] = Op::template element<Way::reciprocal>(x[e], y[e], cell_of(e), grid);
    } else {
#pragma unroll
      for (int e = 0; e < R; ++e)
        v[e] = Op::template element<Way::divide>(x[e], y[e], cell_of(e), grid);
    }
  } else {  // rare: rolled, from copies that may lie in local memory
    C xs[R], ys[R];
    Value vs[R];
#pragma unroll
    for (int e = 0; e < R; ++e) {
      xs[e] = x[e];
      ys[e] = y[e];
    }
#pragma unroll 1
    for (int e = 0; e < R; ++e)
      vs[e] = Op::template element<Way::careful>(xs[e], ys[e], careful_cell(e), grid);
#pragma unroll
    for (int e = 0; e < R; ++e) v[e] = vs[e];
  }
  if constexpr (kIsInteger<typename Op::Out>) {
    using S = typename Op::Out;
    std::uint32_t zeros[RunPack<S, R>::kWords];
    if constexpr (kOne) {
#pragma unroll
      for (auto& z : zeros) z = static_cast<std::uint32_t>(cell_of(0).z + grid.bias) * kEach<S>;
    } else {
      sum_zeros<S, R, T>(cell_of, grid, zeros);
    }
    return pack_integers<S, R>(v, zeros, grid);
  } else {
    return pack<typename Op::Out, R>(v);
  }
}

template <class Op, int R, bool kStreaming>
__device__ __forceinline__ void load_run(const Arguments<typename Op::Element>& args,
                                         std::int64_t run, RunPack<typename Op::A, R>& a,
                                         RunPack<typename Op::B, R>& b) {
  a = load_pack<R * kBits<typename Op::A> / 8, kStreaming>(args.a, run);
  if constexpr (!std::is_same_v<typename Op::B, None>)
    b = load_pack<R * kBits<typename Op::B> / 8, kStreaming>(args.b, run);
}

// ---- one element at a time
// -----------------------------------------------------------------------

template <class S, class C>
__device__ __forceinline__ C load_element(const void* base, std::int64_t offset,
                                          const GridAttributes& grid) {
  if constexpr (std::is_same_v<S, Bytes>) {
    const std::uint32_t raw = static_cast<const std::uint8_t*>(base)[offset];
    return mantissa(raw ^ static_cast<std::uint32_t>(grid.bias), C());
  } else if constexpr (std::is_same_v<S, Nibbles>) {  // offsets may be negative
    const std::uint32_t pair = static_cast<const std::uint8_t*>(base)[offset >> 1];
    const std::uint32_t raw = (pair >> (4 * (offset & 1))) & 15u;
    return mantissa(raw ^ static_cast<std::uint32_t>(grid.bias), C());
  } else if constexpr (std::is_same_v<S, None>) {
    return C(0);
  } else {
    return widen(static_cast<const S*>(base)[offset]);
  }
}

// Elements that one thread must store together: two where they share a byte.
template <class Op>
inline constexpr int kUnit = std::is_same_v<typename Op::Out, Nibbles> ? 2 : 1;

template <class Op>
__device__ __forceinline__ auto map_element(Compute<typename Op::Element> x,
                                            Compute<typename Op::Element> y,
                                            const Cell<typename Op::Element>& cell,
                                            const GridAttributes& grid) {
  if (!cell.quick) return Op::template element<Way::careful>(x, y, cell, grid);
  return grid.reciprocal ? Op::template element<Way::reciprocal>(x, y, cell, grid)
                         : Op::template element<Way::divide>(x, y, cell, grid);
}

// cell_of(e): of element e of the unit. offset: of its first element in the output.
template <class Op, class CellOf>
__device__ __forceinline__ void map_unit(const Arguments<typename Op::Element>& args,
                                         const Compute<typename Op::Element> (&x)[kUnit<Op>],
                                         const Compute<typename Op::Element> (&y)[kUnit<Op>],
                                         std::int64_t offset, const CellOf& cell_of) {
  using T = typename Op::Element;
  using Out = typename Op::Out;
  std::uint32_t byte = 0;
#pragma unroll
  for (int e = 0; e < kUnit<Op>; ++e) {
    const Cell<T> cell = cell_of(e);
    const auto v = map_element<Op>(x[e], y[e], cell, args.grid);
    if constexpr (kIsInteger<Out>)
      byte |= ((static_cast<std::uint32_t>(v) + static_cast<std::uint32_t>(cell.z)) &
               ((1u << kBits<Out>)-1))
              << (kBits<Out> * e);
    else
      static_cast<T*>(args.out)[offset] = narrow<T>(v);
  }
  if constexpr (kIsInteger<Out>)
    static_cast<std::uint8_t*>(args.out)[offset / kUnit<Op>] = static_cast<std::uint8_t>(byte);
}

// Operands of a nest, in its order.
enum NestOperand { kOut, kA, kB, kScale, kZero, kNestOperands };

struct Offsets {
  std::int64_t at[kNestOperands];
};

struct StridedMap {
  int rank;
  bool small;  // all elements have 31-bit numbers
  std::int64_t extent[kMaxNestRank];
  Divisor divisor[kMaxNestRank];
  std::int64_t stride[kNestOperands][kMaxNestRank];
  Offsets start;

  __device__ __forceinline__ Offsets locate(std::int64_t index) const {
    Offsets o = start;
    for (int d = rank - 1; d >= 0; --d) {
      const std::int64_t rest =
          small ? divisor[d].quotient(static_cast<std::uint32_t>(index)) : index / extent[d];
      const std::int64_t coordinate = index - rest * extent[d];
      index = rest;
#pragma unroll
      for (int k = 0; k < kNestOperands; ++k) o.at[k] += coordinate * stride[k][d];
    }
    return o;
  }
};

// A unit lies along the last axis.
template <class Op>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(const __grid_constant__ Arguments<typename Op::Element> args,
                   const __grid_constant__ StridedMap map, std::int64_t units) {
  using C = Compute<typename Op::Element>;
  constexpr int kUnits = 4 / kUnit<Op>;
  Offsets o[kUnits];
  C x[kUnits][kUnit<Op>], y[kUnits][kUnit<Op>];
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads * kUnits) + threadIdx.x;
  const auto step = [&](int k) { return map.stride[k][map.rank - 1]; };
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if (first + u * kThreads >= units) continue;
    o[u] = map.locate((first + u * kThreads) * kUnit<Op>);
#pragma unroll
    for (int e = 0; e < kUnit<Op>; ++e) {
      x[u][e] = load_element<typename Op::A, C>(args.a, o[u].at[kA] + e * step(kA), args.grid);
      y[u][e] = load_element<typename Op::B, C>(args.b, o[u].at[kB] + e * step(kB), args.grid);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if (first + u * kThreads >= units) return;
    map_unit<Op>(args, x[u], y[u], o[u].at[kOut], [&](int e) {
      return load_cell<Op>(args, o[u].at[kScale] + e * step(kScale),
                           o[u].at[kZero] + e * step(kZero));
    });
  }
}

// ---- runs
// ----------------------------------------------------------------------------------------

// The last elements of a tensor that is one group, fewer than a run.
template <class Op>
__device__ __forceinline__ void map_tail(const Arguments<typename Op::Element>& args,
                                         std::int64_t first, int tail,
                                         const Cell<typename Op::Element>& cell) {
  using C = Compute<typename Op::Element>;
#pragma unroll 1
  for (std::int64_t i = first; i < first + tail; i += kUnit<Op>) {
    C x[kUnit<Op>], y[kUnit<Op>];
    for (int e = 0; e < kUnit<Op>; ++e) {
      x[e] = load_element<typename Op::A, C>(args.a, i + e, args.grid);
      y[e] = load_element<typename Op::B, C>(args.b, i + e, args.grid);
    }
    map_unit<Op>(args, x, y, i, [&](int) { return cell; });
  }
}

template <class Op, class Tune>
__global__ void __launch_bounds__(kThreads)
    runs_kernel(const __grid_constant__ Arguments<typename Op::Element> args, const GroupMap map,
                std::int64_t runs, int tail) {
  constexpr int R = Tune::R, K = Tune::K;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads * K) +
                             threadIdx.x / 32 * (32 * K) + threadIdx.x % 32;
  RunPack<typename Op::A, R> a[K];
  RunPack<typename Op::B, R> b[K];
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (first + k * 32 < runs) load_run<Op, R, Tune::kStreaming>(args, first + k * 32, a[k], b[k]);
  if (first > runs) return;
  std::int64_t group = first < runs ? map(first) : 0;
  Cell<typename Op::Element> cell = load_group<Op>(args, group);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const std::int64_t run = first + k * 32;
    if (run >= runs) {
      if (run == runs && tail > 0) map_tail<Op>(args, runs * R, tail, cell);
      return;
    }
    if (k > 0) {
      const std::int64_t next = map(run);
      if (next != group) {
        group = next;
        cell = load_group<Op>(args, group);
      }
    }
    const auto cell_of = [&](int) -> const auto& { return cell; };
    const auto out = map_run<Op, R, true>(a[k], b[k], cell.quick, args.grid, cell_of, cell_of);
    store_pack<Tune::kStreaming>(args.out, run, out);
  }
}

// A block: kThreads / width rows at a time, `width` column runs of each.
struct ColumnMap {
  std::int64_t rows, runs;     // runs: column runs of a row
  std::int64_t column_blocks;  // blocks side by side
  int width, lanes;            // column runs of a block, rows it works on at a time
};

template <class Op, class Tune>
__global__ void __launch_bounds__(kThreads)
    columns_kernel(const __grid_constant__ Arguments<typename Op::Element> args,
                   const ColumnMap map) {
  using T = typename Op::Element;
  constexpr int R = Tune::R, kRows = Tune::kRows, kBatch = 4;
  const int lane = static_cast<int>(threadIdx.x) / map.width;
  const std::int64_t tile = blockIdx.x / map.column_blocks;
  const std::int64_t column =
      (blockIdx.x - tile * map.column_blocks) * map.width + threadIdx.x % map.width;
  if (lane >= map.lanes || column >= map.runs) return;
  Cell<T> cells[R];  // only what quick runs need stays in registers
  bool quick = true;
#pragma unroll
  for (int e = 0; e < R; ++e) {
    cells[e] = load_group<Op>(args, column * R + e);
    quick = quick && cells[e].quick;
  }
  const std::int64_t first = tile * (kRows * map.lanes) + lane;
#pragma unroll 1
  for (int j = 0; j < kRows; j += kBatch) {
    RunPack<typename Op::A, R> a[kBatch];
    RunPack<typename Op::B, R> b[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const std::int64_t row = first + (j + k) * map.lanes;
      if (row < map.rows)
        load_run<Op, R, Tune::kStreaming>(args, row * map.runs + column, a[k], b[k]);
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const std::int64_t row = first + (j + k) * map.lanes;
      if (row >= map.rows) return;
      const auto out = map_run<Op, R, false>(
          a[k], b[k], quick, args.grid, [&](int e) -> const auto& { return cells[e]; },
          [&](int e) { return load_group<Op>(args, column * R + e); });
      store_pack<Tune::kStreaming>(args.out, row * map.runs + column, out);
    }
  }
}

}  // namespace planck::quantize_device
