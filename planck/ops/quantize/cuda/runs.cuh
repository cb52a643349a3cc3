// The parts that the loops over elementwise ops share: arguments, and runs of R consecutive
// elements in registers.
#pragma once

#include "planck/ops/quantize/cuda/elementwise_ops.cuh"
#include "planck/ops/quantize/cuda/kept_columns.cuh"

namespace planck::quantize_device {

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

// Scale and zero point as they are stored.
template <class T>
struct StoredGroup {
  T scale;
  std::int32_t z;
};

template <class Op>
__device__ __forceinline__ auto load_stored(const Arguments<typename Op::Element>& args,
                                            std::int64_t scale, std::int64_t zero_point) {
  using T = typename Op::Element;
  StoredGroup<T> g{load_scale(args.scale + scale), 0};
  if constexpr (Op::kZeroPoint) g.z = load_early(args.zero_point + zero_point);
  return g;
}
template <class Op>
__device__ __forceinline__ auto load_stored(const Arguments<typename Op::Element>& args,
                                            std::int64_t group) {
  return load_stored<Op>(args, group * args.scale_step, group * args.zero_point_step);
}

template <class Op>
__device__ __forceinline__ auto make_cell_of(const StoredGroup<typename Op::Element>& g,
                                             const GridAttributes& grid) {
  using T = typename Op::Element;
  const Compute<T> s = widen(g.scale);
  const Compute<T> inverse = Op::kInverse ? inverse_of<T>(s, grid) : Compute<T>(0);
  Cell<T> c = Op::derive(s, inverse, g.z, grid);
  c.quick = Op::quick(s, inverse, g.z, grid);
  return c;
}

template <class Op, int R, bool kStreaming>
__device__ __forceinline__ void load_run(const Arguments<typename Op::Element>& args,
                                         std::int64_t run, RunPack<typename Op::A, R>& a,
                                         RunPack<typename Op::B, R>& b) {
  a = load_pack<R * kBits<typename Op::A> / 8, kStreaming>(args.a, run);
  if constexpr (!std::is_same_v<typename Op::B, None>)
    b = load_pack<R * kBits<typename Op::B> / 8, kStreaming>(args.b, run);
}

// What element() gives: q − z, or the value to store.
template <class Op>
using ValueOf =
    std::conditional_t<kIsInteger<typename Op::Out>, std::int32_t, Compute<typename Op::Element>>;

// Stores elements e and e + 1 of a run. Words of integers are sums: e = 0 comes first and starts
// them from zeros[word], the sum of (z + bias) << position over the word's elements.
template <class Op, bool kNan, int R>
__device__ __forceinline__ void put_pair(RunPack<typename Op::Out, R>& out, int e, ValueOf<Op> v0,
                                         ValueOf<Op> v1, const std::uint32_t* zeros) {
  using S = typename Op::Out;
  if constexpr (kIsInteger<S>) {
    constexpr int kWidth = kBits<S>, kPerWord = 32 / kWidth;
    const int w = e / kPerWord, at = e % kPerWord * kWidth;
    const std::uint32_t pair =
        static_cast<std::uint32_t>(v0) + (static_cast<std::uint32_t>(v1) << kWidth);
    out.word[w] = (at == 0 ? zeros[w] : out.word[w]) + (pair << at);
  } else {
    put_floats<S, kNan>(out, e, v0, v1);
  }
}

// The sums are complete: biased values become the dtype's own.
template <class Op, int R>
__device__ __forceinline__ void finish_run(RunPack<typename Op::Out, R>& out,
                                           const GridAttributes& grid) {
  using S = typename Op::Out;
  if constexpr (kIsInteger<S>) {
#pragma unroll
    for (auto& word : out.word) word ^= in_each<S>(static_cast<std::uint32_t>(grid.bias));
  }
}

template <Way kWay, class Op, int R, class CellOf>
__device__ __forceinline__ RunPack<typename Op::Out, R> map_quick(
    const RunPack<typename Op::A, R>& a, const RunPack<typename Op::B, R>& b,
    const GridAttributes& grid, const std::uint32_t* zeros, const CellOf& cell_of) {
  using C = Compute<typename Op::Element>;
  RunPack<typename Op::Out, R> out;
  const auto element = [&](int e) {
    return Op::template element<kWay>(value_at<typename Op::A, C>(a, e, grid),
                                      value_at<typename Op::B, C>(b, e, grid), cell_of(e), grid);
  };
#pragma unroll
  for (int e = 0; e < R; e += 2)
    put_pair<Op, Op::kNan, R>(out, e, element(e), element(e + 1), zeros);
  finish_run<Op, R>(out, grid);
  return out;
}

// A rolled loop over copies in local memory: for elements that are rare. cell_of takes a variable.
template <class Op, int R, class CellOf>
__device__ __forceinline__ RunPack<typename Op::Out, R> map_careful(
    const RunPack<typename Op::A, R>& a, const RunPack<typename Op::B, R>& b,
    const GridAttributes& grid, const std::uint32_t* zeros, const CellOf& cell_of) {
  using C = Compute<typename Op::Element>;
  C x[R], y[R];
  ValueOf<Op> v[R];
#pragma unroll
  for (int e = 0; e < R; ++e) {
    x[e] = value_at<typename Op::A, C>(a, e, grid);
    y[e] = value_at<typename Op::B, C>(b, e, grid);
  }
#pragma unroll 1
  for (int e = 0; e < R; ++e)
    v[e] = Op::template element<Way::careful>(x[e], y[e], cell_of(e), grid);
  RunPack<typename Op::Out, R> out;
#pragma unroll
  for (int e = 0; e < R; e += 2) put_pair<Op, true, R>(out, e, v[e], v[e + 1], zeros);
  finish_run<Op, R>(out, grid);
  return out;
}

template <class Op, int R>
__device__ __forceinline__ bool any_delicate(const RunPack<typename Op::A, R>& a,
                                             const RunPack<typename Op::B, R>& b,
                                             const GridAttributes& grid) {
  using C = Compute<typename Op::Element>;
  bool any = false;
#pragma unroll
  for (int e = 0; e < R; ++e)
    any |= Op::delicate(value_at<typename Op::A, C>(a, e, grid),
                        value_at<typename Op::B, C>(b, e, grid));
  return any;
}

// A run that lies in one group.
template <class Op, int R>
__device__ __forceinline__ RunPack<typename Op::Out, R> map_run(
    const RunPack<typename Op::A, R>& a, const RunPack<typename Op::B, R>& b,
    const Cell<typename Op::Element>& cell, const GridAttributes& grid) {
  constexpr int kWords = RunPack<typename Op::Out, R>::kWords;
  std::uint32_t zeros[kWords];
#pragma unroll
  for (auto& z : zeros)
    z = in_each<typename Op::Out>(static_cast<std::uint32_t>(cell.z) +
                                  static_cast<std::uint32_t>(grid.bias));
  const auto cell_of = [&](int) -> const auto& { return cell; };
  if (!cell.quick || any_delicate<Op, R>(a, b, grid))
    return map_careful<Op, R>(a, b, grid, zeros, cell_of);
  return grid.reciprocal ? map_quick<Way::reciprocal, Op, R>(a, b, grid, zeros, cell_of)
                         : map_quick<Way::divide, Op, R>(a, b, grid, zeros, cell_of);
}

}  // namespace planck::quantize_device
