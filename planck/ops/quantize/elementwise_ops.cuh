// The elementwise ops of the family, one element at a time: what elementwise.cuh loops over.
//
// An op names its operands' storage (A, B, Out), makes a Cell of a group and maps an element. An op
// with an integer output gives q − z; the loop adds the zero points of a whole word at once.
#pragma once

#include "planck/ops/quantize/elements.cuh"

namespace planck::quantize_device {

// q = clamp(rint(x / s) + z, q_min, q_max)
template <class T, class S>
struct Quantize {
  using Element = T;
  using A = T;
  using B = None;
  using Out = S;
  static constexpr bool kZeroPoint = true;

  static __device__ __forceinline__ Cell<T> make(Compute<T> s, std::int32_t z,
                                                 const GridAttributes& grid) {
    return make_cell<T>(s, z, 0, grid);
  }
  template <Way kWay>
  static __device__ __forceinline__ std::int32_t element(Compute<T> x, Compute<T>, const Cell<T>& c,
                                                         const GridAttributes& grid) {
    return steps_of<kWay, T>(x, c, grid);
  }
};

// dx = dy / s where q_min <= rint(x / s) + z <= q_max, else 0
template <class T>
struct QuantizeBackward {
  using Element = T;
  using A = T;  // x
  using B = T;  // dy
  using Out = T;
  static constexpr bool kZeroPoint = true;

  static __device__ __forceinline__ Cell<T> make(Compute<T> s, std::int32_t z,
                                                 const GridAttributes& grid) {
    return make_cell<T>(s, z, 1, grid);
  }
  template <Way kWay>
  static __device__ __forceinline__ Compute<T> element(Compute<T> x, Compute<T> dy,
                                                       const Cell<T>& c,
                                                       const GridAttributes& grid) {
    return qm::ste(dy, c.scale, inside_of<kWay, T>(x, c, grid));
  }
};

// x = s · (q − z)
template <class T, class S>
struct Dequantize {
  using Element = T;
  using A = S;
  using B = None;
  using Out = T;
  static constexpr bool kZeroPoint = true;

  // x_lo: what stands for z among unpacked integers. A finite scale and an ordinary zero point
  // give no NaN, and q − z without rounding.
  static __device__ __forceinline__ Cell<T> make(Compute<T> s, std::int32_t z,
                                                 const GridAttributes& grid) {
    using C = Compute<T>;
    Cell<T> c = make_cell<T>(s, z, 0, grid);
    c.quick = z >= -qm::kOrdinaryZero && z <= qm::kOrdinaryZero && qm::is_finite(s);
    c.x_lo = kMantissaOrigin<C> + static_cast<C>(c.quick ? z + grid.bias : 0);
    return c;
  }
  template <Way kWay>
  static __device__ __forceinline__ Compute<T> element(Compute<T> q, Compute<T>, const Cell<T>& c,
                                                       const GridAttributes& grid) {
    using C = Compute<T>;
    if constexpr (kWay != Way::careful) return c.scale * (q - c.x_lo);
    const std::int32_t integer = static_cast<std::int32_t>(q - kMantissaOrigin<C>) - grid.bias;
    return qm::canonical(c.scale * qm::steps<C>(integer, c.z));
  }
};

// dq = s · dy
template <class T>
struct DequantizeBackward {
  using Element = T;
  using A = T;
  using B = None;
  using Out = T;
  static constexpr bool kZeroPoint = false;

  static __device__ __forceinline__ Cell<T> make(Compute<T> s, std::int32_t,
                                                 const GridAttributes&) {
    Cell<T> c{};
    c.scale = s;
    c.quick = true;
    return c;
  }
  template <Way kWay>
  static __device__ __forceinline__ Compute<T> element(Compute<T> dy, Compute<T>, const Cell<T>& c,
                                                       const GridAttributes&) {
    return qm::canonical(c.scale * dy);
  }
};

// y = s · (clamp(rint(x / s) + z, q_min, q_max) − z)
template <class T>
struct FakeQuantize {
  using Element = T;
  using A = T;
  using B = None;
  using Out = T;
  static constexpr bool kZeroPoint = true;

  // A finite scale times an integer is no NaN; of the quick groups only those of
  // QuantMath::reciprocal may have another.
  static __device__ __forceinline__ Cell<T> make(Compute<T> s, std::int32_t z,
                                                 const GridAttributes& grid) {
    Cell<T> c = make_cell<T>(s, z, 0, grid);
    c.quick = c.quick && qm::is_finite(s);
    return c;
  }
  template <Way kWay>
  static __device__ __forceinline__ Compute<T> element(Compute<T> x, Compute<T>, const Cell<T>& c,
                                                       const GridAttributes& grid) {
    using C = Compute<T>;
    if constexpr (kWay != Way::careful)
      return c.scale * static_cast<C>(steps_of<kWay, T>(x, c, grid));
    const C v = position<kWay>(x, c.scale, c.inverse, grid);
    return qm::canonical(c.scale *
                         qm::steps<C>(qm::quantized(v, c.z, grid.q_min, grid.q_max), c.z));
  }
};

// dx = dy in range, else 0
template <class T>
struct FakeQuantizeBackward {
  using Element = T;
  using A = T;  // x
  using B = T;  // dy
  using Out = T;
  static constexpr bool kZeroPoint = true;

  static __device__ __forceinline__ Cell<T> make(Compute<T> s, std::int32_t z,
                                                 const GridAttributes& grid) {
    return make_cell<T>(s, z, 1, grid);
  }
  template <Way kWay>
  static __device__ __forceinline__ Compute<T> element(Compute<T> x, Compute<T> dy,
                                                       const Cell<T>& c,
                                                       const GridAttributes& grid) {
    const bool inside = inside_of<kWay, T>(x, c, grid);
    return inside ? qm::canonical(dy) : Compute<T>(0);
  }
};

}  // namespace planck::quantize_device
