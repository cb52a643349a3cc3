// Groups as a thread holds them (cells), and the quick forms of the element math.
//
// Everything here gives the values of quantize.math.h, bit for bit; only the way there differs. A
// group is quick where its scale is ordinary and its zero point lies within [q_min, q_max]: then
// the rounded quotient comes from the reciprocal, and NaN needs no test of its own. All other
// groups take the careful way.
#pragma once

#include "planck/ops/quantize/cuda/elements.cuh"

namespace planck::quantize_device {

enum class Way : std::uint8_t { divide, reciprocal, careful };

// What an op does not use takes no register. lo and what follows from it is valid in quick cells
// only.
template <class T>
struct Cell {
  using C = Compute<T>;
  C scale, inverse, lo, hi;  // see quantize_math::Group
  C x_lo, x_hi;  // (lo − margin) · s and (hi + margin) · s; without · s for reciprocal
  std::int32_t z;
  bool quick;
};

__device__ __forceinline__ float approximate_inverse(float s) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));
  return r;
}

// 1 / s, rounded. Where only quick_quotient uses it, that of ordinary scales only: one Newton step
// gives it (a test holds that for every one of them), without the branch that a division brings,
// behind which the loads of a group would wait for one another. For the quotient of 16-bit operands
// an error of one unit does no harm.
template <class T>
__device__ __forceinline__ Compute<T> inverse_of(Compute<T> s, const GridAttributes& grid) {
  if constexpr (!std::is_same_v<T, double>) {
    if (!grid.reciprocal) {
      const float r = approximate_inverse(s);
      return sizeof(T) == 2 ? r : qm::fma_of(-qm::fma_of(r, s, -1.0f), r, r);
    }
  }
  return Compute<T>(1) / s;
}

template <class T>
__device__ __forceinline__ bool is_quick(Compute<T> scale, Compute<T> inverse, std::int32_t z,
                                         const GridAttributes& grid) {
  if constexpr (std::is_same_v<T, double>) {
    return z >= -qm::kOrdinaryZero && z <= qm::kOrdinaryZero;
  } else {
    const bool in_range = static_cast<std::uint32_t>(z) - static_cast<std::uint32_t>(grid.q_min) <=
                          static_cast<std::uint32_t>(grid.q_max - grid.q_min);
    return in_range && (grid.reciprocal ? qm::is_finite(scale) && qm::is_finite(inverse)
                                        : qm::has_ordinary_quotient(scale));
  }
}

// margin: 0 where x is clamped to the range, 1 where the clamped x must stay outside of it.
template <class T>
__device__ __forceinline__ Cell<T> derive_cell(Compute<T> scale, Compute<T> inverse, std::int32_t z,
                                               int margin, const GridAttributes& grid) {
  using C = Compute<T>;
  Cell<T> c = {};
  c.scale = scale;
  c.inverse = inverse;
  c.z = z;
  c.lo = static_cast<C>(static_cast<std::int32_t>(static_cast<std::uint32_t>(grid.q_min) -
                                                  static_cast<std::uint32_t>(z)));
  c.hi = c.lo + static_cast<C>(grid.q_max - grid.q_min);
  const C unit = grid.reciprocal ? C(1) : scale;
  c.x_lo = (c.lo - static_cast<C>(margin)) * unit;
  c.x_hi = (c.hi + static_cast<C>(margin)) * unit;
  return c;
}

template <class T>
__device__ __forceinline__ Cell<T> make_cell(Compute<T> scale, std::int32_t z, int margin,
                                             const GridAttributes& grid) {
  const Compute<T> inverse = inverse_of<T>(scale, grid);
  Cell<T> c = derive_cell<T>(scale, inverse, z, margin, grid);
  c.quick = is_quick<T>(scale, inverse, z, grid);
  return c;
}

// ---- positions on the grid -------------------------------------------------------------

// x / s rounded, for ordinary scales and x that is 0 or neither tiny nor huge; elsewhere its rint
// is still right. 16-bit operands need one correction only: m1 / m2 of two 11-bit integers is never
// a rounding tie of f32, and at least 2^−12 of a unit away from any; the corrected value before its
// last rounding is within 2^−21. −0 stays: a residual of zero is +0, and q − 0 is q.
template <class T>
__device__ __forceinline__ float quick_quotient(float x, float scale, float inverse) {
  if constexpr (std::is_same_v<T, float>) return qm::ordinary_quotient(x, scale, inverse);
  const float q = x * inverse;
  return qm::fma_of(-qm::fma_of(q, scale, -x), inverse, q);
}

// Whether quick_quotient may be wrong in its last bits.
template <class T>
__device__ __forceinline__ bool is_tiny(float x) {
  constexpr std::uint32_t kTiny = 0x1f800000u;                                   // 2^−64
  return !std::is_same_v<T, f16> && __float_as_uint(x) * 2 - 1 < kTiny * 2 - 1;  // 0 wraps around
}
template <class T>
__device__ __forceinline__ bool is_delicate(float x) {
  return is_tiny<T>(x) || !(fabsf(x) <= 0x1p60f);
}

// max(lo, min(hi, x)); NaN stays.
__device__ __forceinline__ float clamp(float x, float lo, float hi) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(x), "f"(lo));
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(c), "f"(hi));
  return c;
}

template <Way kWay, class C>
__device__ __forceinline__ C position(C x, C scale, C inverse, const GridAttributes& grid) {
  if constexpr (kWay == Way::reciprocal) return x * inverse;
  if constexpr (kWay == Way::divide) return x / scale;
  return grid.reciprocal ? x * inverse : x / scale;
}

// The position of x, or one beyond the same end of the range. Quick cells only.
template <Way kWay, class T>
__device__ __forceinline__ float clamped_position(float x, const Cell<T>& c) {
  if constexpr (kWay == Way::reciprocal) return clamp(x * c.inverse, c.x_lo, c.x_hi);
  return quick_quotient<T>(clamp(x, c.x_lo, c.x_hi), c.scale, c.inverse);
}

// What leaves no room for a fraction when added.
inline constexpr float kRound = qm::kSnapWhole;

// The same for 16-bit elements, up to a fraction that rint does not see: see
// qm::kSnapFine. An inverse that is off by one unit still leaves |q| · 2^−23 <= 2^−15 here.
__device__ __forceinline__ float fine_position(float x, float inverse) {
  return qm::fma_of(x, inverse, qm::kSnapFine);
}
template <Way kWay, class T>
inline constexpr bool kSnaps = kWay == Way::divide && sizeof(T) == 2;

// q − z as an integer, modulo 2^32. margin 0.
template <Way kWay, class T>
__device__ __forceinline__ std::int32_t steps_of(Compute<T> x, const Cell<T>& c,
                                                 const GridAttributes& grid) {
  if constexpr (kWay == Way::careful) {
    const auto v = position<kWay>(x, c.scale, c.inverse, grid);
    return static_cast<std::int32_t>(
        static_cast<std::uint32_t>(qm::quantized(v, c.z, grid.q_min, grid.q_max)) -
        static_cast<std::uint32_t>(c.z));
  } else if constexpr (std::is_same_v<T, double>) {
    const double v = position<kWay>(x, c.scale, c.inverse, grid);
    return __double2int_rn(qm::ordinary_steps(v, c.lo, c.hi));
  } else if constexpr (kSnaps<kWay, T>) {
    return __float2int_rn(fine_position(clamp(x, c.x_lo, c.x_hi), c.inverse) - qm::kSnapFine);
  } else {
    return __float2int_rn(clamped_position<kWay>(x, c));  // NaN converts to 0
  }
}

// margin 1.
template <Way kWay, class T>
__device__ __forceinline__ bool inside_of(Compute<T> x, const Cell<T>& c,
                                          const GridAttributes& grid) {
  if constexpr (kWay == Way::careful) {
    return qm::in_range(position<kWay>(x, c.scale, c.inverse, grid), c.z, grid.q_min, grid.q_max);
  } else if constexpr (std::is_same_v<T, double>) {
    return qm::ordinary_in_range(position<kWay>(x, c.scale, c.inverse, grid), c.lo, c.hi);
  } else {
    float whole;  // q − z, plus kRound
    if constexpr (kSnaps<kWay, T>)
      whole = fine_position(clamp(x, c.x_lo, c.x_hi), c.inverse) + (kRound - qm::kSnapFine);
    else
      whole = clamped_position<kWay>(x, c) + kRound;
    const float above = whole - (c.lo + kRound);  // q − q_min
    return above >= 0.0f && above <= static_cast<float>(grid.q_max - grid.q_min);
  }
}

}  // namespace planck::quantize_device
