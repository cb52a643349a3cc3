// The elementwise ops of the family, one element at a time: what the loops run.
//
// An op names its operands' storage (A, B, Out), makes a cell of a group and maps an element. An op
// with an integer output gives q − z; the loop adds the zero points of a whole word at once.
// Delicate elements send their run the careful way. kNan: a quick run may have NaN to store.
#pragma once

#include "planck/ops/quantize/cuda/cells.cuh"

namespace planck::quantize_device {

// Narrowing to 16 bits sees to NaN itself.
template <class T>
__device__ __forceinline__ Compute<T> canonical_for(Compute<T> v) {
  if constexpr (sizeof(T) == 2) return v;
  return qm::canonical(v);
}

template <class T, class AStorage, class BStorage, class OutStorage, int kMargin, bool kQuickNan>
struct ElementwiseOp {
  using Element = T;
  using C = Compute<T>;
  using A = AStorage;
  using B = BStorage;
  using Out = OutStorage;
  static constexpr bool kZeroPoint = true, kInverse = true, kNan = kQuickNan;

  static __device__ __forceinline__ Cell<T> derive(C s, C inverse, std::int32_t z,
                                                   const GridAttributes& grid) {
    return derive_cell<T>(s, inverse, z, kMargin, grid);
  }
  static __device__ __forceinline__ bool quick(C s, C inverse, std::int32_t z,
                                               const GridAttributes& grid) {
    return is_quick<T>(s, inverse, z, grid);
  }
  static __device__ __forceinline__ bool delicate(C, C) { return false; }
};

// q = clamp(rint(x / s) + z, q_min, q_max)
template <class T, class S>
struct Quantize : ElementwiseOp<T, T, None, S, 0, false> {
  template <Way kWay>
  static __device__ __forceinline__ std::int32_t element(Compute<T> x, Compute<T>, const Cell<T>& c,
                                                         const GridAttributes& grid) {
    return steps_of<kWay, T>(x, c, grid);
  }
};

// dx = dy / s where q_min <= rint(x / s) + z <= q_max, else 0.  A: x, B: dy
template <class T>
struct QuantizeBackward : ElementwiseOp<T, T, T, T, 1, true> {
  using C = Compute<T>;
  static __device__ __forceinline__ bool delicate(C, C dy) {
    if constexpr (sizeof(T) == 2) return is_delicate<T>(dy);
    return false;
  }
  template <Way kWay>
  static __device__ __forceinline__ C element(C x, C dy, const Cell<T>& c,
                                              const GridAttributes& grid) {
    const bool inside = inside_of<kWay, T>(x, c, grid);
    if constexpr (sizeof(T) == 2 && kWay == Way::divide)
      return inside ? quick_quotient<T>(dy, c.scale, c.inverse) : 0.0f;
    return qm::ste(dy, c.scale, inside);
  }
};

// x = s · (q − z)
template <class T, class S>
struct Dequantize : ElementwiseOp<T, S, None, T, 0, false> {
  using C = Compute<T>;
  static constexpr bool kInverse = false;
  // x_lo: what stands for z among unpacked integers.
  static __device__ __forceinline__ Cell<T> derive(C s, C, std::int32_t z,
                                                   const GridAttributes& grid) {
    Cell<T> c = {};
    c.scale = s;
    c.z = z;
    c.x_lo = kMantissaOrigin<C> + static_cast<C>(z) + static_cast<C>(grid.bias);
    return c;
  }
  // Then the product is no NaN, and q − z has no rounding.
  static __device__ __forceinline__ bool quick(C s, C, std::int32_t z, const GridAttributes&) {
    return z >= -qm::kOrdinaryZero && z <= qm::kOrdinaryZero && qm::is_finite(s);
  }
  template <Way kWay>
  static __device__ __forceinline__ C element(C q, C, const Cell<T>& c,
                                              const GridAttributes& grid) {
    if constexpr (kWay != Way::careful) return c.scale * (q - c.x_lo);
    const std::int32_t integer = static_cast<std::int32_t>(q - kMantissaOrigin<C>) - grid.bias;
    return qm::canonical(c.scale * qm::steps<C>(integer, c.z));
  }
};

// dq = s · dy
template <class T>
struct DequantizeBackward : ElementwiseOp<T, T, None, T, 0, true> {
  using C = Compute<T>;
  static constexpr bool kZeroPoint = false, kInverse = false;
  static __device__ __forceinline__ Cell<T> derive(C s, C, std::int32_t, const GridAttributes&) {
    Cell<T> c = {};
    c.scale = s;
    return c;
  }
  static __device__ __forceinline__ bool quick(C, C, std::int32_t, const GridAttributes&) {
    return true;
  }
  template <Way kWay>
  static __device__ __forceinline__ C element(C dy, C, const Cell<T>& c, const GridAttributes&) {
    return canonical_for<T>(c.scale * dy);
  }
};

// y = s · (clamp(rint(x / s) + z, q_min, q_max) − z): no NaN where s is finite
template <class T>
struct FakeQuantize : ElementwiseOp<T, T, None, T, 0, false> {
  using C = Compute<T>;
  static __device__ __forceinline__ bool quick(C s, C inverse, std::int32_t z,
                                               const GridAttributes& grid) {
    return is_quick<T>(s, inverse, z, grid) && qm::is_finite(s);
  }
  template <Way kWay>
  static __device__ __forceinline__ C element(C x, C, const Cell<T>& c,
                                              const GridAttributes& grid) {
    if constexpr (kWay != Way::careful)
      return c.scale * static_cast<C>(steps_of<kWay, T>(x, c, grid));
    const C v = position<kWay>(x, c.scale, c.inverse, grid);
    return qm::canonical(c.scale *
                         qm::steps<C>(qm::quantized(v, c.z, grid.q_min, grid.q_max), c.z));
  }
};

// dx = dy in range, else 0.  A: x, B: dy
template <class T>
struct FakeQuantizeBackward : ElementwiseOp<T, T, T, T, 1, true> {
  using C = Compute<T>;
  template <Way kWay>
  static __device__ __forceinline__ C element(C x, C dy, const Cell<T>& c,
                                              const GridAttributes& grid) {
    return inside_of<kWay, T>(x, c, grid) ? canonical_for<T>(dy) : C(0);
  }
};

}  // namespace planck::quantize_device
