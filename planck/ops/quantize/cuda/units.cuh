// Single elements, or pairs where two share an output byte: for what does not lie in runs.
#pragma once

#include "planck/ops/quantize/cuda/runs.cuh"

namespace planck::quantize_device {

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
__device__ __forceinline__ ValueOf<Op> map_element(Compute<typename Op::Element> x,
                                                   Compute<typename Op::Element> y,
                                                   const Cell<typename Op::Element>& cell,
                                                   const GridAttributes& grid) {
  if (!cell.quick || Op::delicate(x, y))
    return Op::template element<Way::careful>(x, y, cell, grid);
  return grid.reciprocal ? Op::template element<Way::reciprocal>(x, y, cell, grid)
                         : Op::template element<Way::divide>(x, y, cell, grid);
}

// Elements of a unit are a_step and b_step apart.
template <class Op>
__device__ __forceinline__ void load_unit(const Arguments<typename Op::Element>& args,
                                          std::int64_t a, std::int64_t a_step, std::int64_t b,
                                          std::int64_t b_step,
                                          Compute<typename Op::Element> (&x)[kUnit<Op>],
                                          Compute<typename Op::Element> (&y)[kUnit<Op>]) {
  using C = Compute<typename Op::Element>;
#pragma unroll
  for (int e = 0; e < kUnit<Op>; ++e) {
    x[e] = load_element<typename Op::A, C>(args.a, a + e * a_step, args.grid);
    y[e] = load_element<typename Op::B, C>(args.b, b + e * b_step, args.grid);
  }
}

// cell_of(e): of element e of the unit. offset: of its first element in the output.
template <class Op, class CellOf>
__device__ __forceinline__ void map_unit(const Arguments<typename Op::Element>& args,
                                         const Compute<typename Op::Element> (&x)[kUnit<Op>],
                                         const Compute<typename Op::Element> (&y)[kUnit<Op>],
                                         std::int64_t offset, const CellOf& cell_of) {
  using T = typename Op::Element;
  std::uint32_t byte = 0;
#pragma unroll
  for (int e = 0; e < kUnit<Op>; ++e) {
    const Cell<T> cell = cell_of(e);
    const ValueOf<Op> v = map_element<Op>(x[e], y[e], cell, args.grid);
    if constexpr (kIsInteger<typename Op::Out>) {
      const std::uint32_t q = static_cast<std::uint32_t>(v) + static_cast<std::uint32_t>(cell.z);
      byte |= kUnit<Op> == 2 ? (q & 15u) << (4 * e) : q;
    } else {
      static_cast<T*>(args.out)[offset] = narrow<T>(v);
    }
  }
  if constexpr (kIsInteger<typename Op::Out>)
    static_cast<std::uint8_t*>(args.out)[offset / kUnit<Op>] = static_cast<std::uint8_t>(byte);
}

}  // namespace planck::quantize_device
