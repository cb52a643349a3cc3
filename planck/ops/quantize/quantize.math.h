// Element math of the quantize family: scalar, host and device, no loops and no memory. Compiled
// for both, so that every kernel of the family rounds, clamps and masks alike.
//
// C is the compute type: f64 for f64 tensors, f32 for f32, f16 and bf16. For an element x of a
// group with scale s and zero point z (docs/numerics.md):
//
//   v = x / s                         QuantMath::divide, correctly rounded
//     = x * (1 / s)                   QuantMath::reciprocal
//   t = rint(v)                       to nearest, ties to even; NaN counts as 0, never in range
//   q = clamp(t + z, q_min, q_max)    in range: q_min <= t + z <= q_max
//
// t + z is never formed in 32-bit integers. For an ordinary group (|z| <= kOrdinaryZero) the clamp
// is done on v against q_min − z and q_max − z, which are exact in C; all other groups go through
// f64, where t + z is exact or far outside.
#pragma once

#include <cstdint>

#include "planck/core/half.h"
#include "planck/core/macros.h"

namespace planck::quantize_math {

inline constexpr std::int32_t kOrdinaryZero = 1 << 20;
// Scales for which the corrected reciprocal (ordinary_quotient) is proven to give the rounded
// quotient.
inline constexpr float kOrdinaryScaleMin = 0x1p-60f, kOrdinaryScaleMax = 0x1p60f;

PLANCK_HD float rint_of(float v) { return __builtin_rintf(v); }
PLANCK_HD double rint_of(double v) { return __builtin_rint(v); }
// rint of |v| <= 2^22 by an addition that leaves no bits for a fraction. Zero comes out as +0.
PLANCK_HD float small_rint(float v) { return (v + 0x1.8p23f) - 0x1.8p23f; }
PLANCK_HD float fma_of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// Every NaN that a kernel computes is stored as this one: the sign and payload of a NaN differ
// between processors.
PLANCK_HD float canonical(float v) { return v == v ? v : __builtin_nanf(""); }
PLANCK_HD double canonical(double v) { return v == v ? v : __builtin_nan(""); }

// What the elements of a group need of it, computed once.
template <class C>
struct Group {
  C scale;    // s
  C inverse;  // 1 / s, rounded
  C lo, hi;   // q_min − z, q_max − z where ordinary()
  std::int32_t z;
  bool ordinary;  // lo and hi are exact
};

template <class C>
PLANCK_HD Group<C> make_group(C scale, std::int32_t z, std::int32_t q_min, std::int32_t q_max) {
  const bool ordinary = z >= -kOrdinaryZero && z <= kOrdinaryZero;
  const std::int32_t zero = ordinary ? z : 0;
  return {scale, C(1) / scale, static_cast<C>(q_min - zero), static_cast<C>(q_max - zero),
          z,     ordinary};
}

// v, the position of x on the grid before rounding.
template <bool kReciprocal, class C>
PLANCK_HD C position(C x, const Group<C>& g) {
  return kReciprocal ? x * g.inverse : x / g.scale;
}

// ---- any group ----------------------------------------------------------------------------------

// t + z in f64, NaN read as t = 0.
template <class C>
PLANCK_HD double grid_point(C v, std::int32_t z) {
  const double t = v == v ? static_cast<double>(rint_of(v)) : 0.0;
  return t + static_cast<double>(z);
}

template <class C>
PLANCK_HD std::int32_t quantized(C v, std::int32_t z, std::int32_t q_min, std::int32_t q_max) {
  const double p = grid_point(v, z);
  if (p <= static_cast<double>(q_min)) return q_min;
  if (p >= static_cast<double>(q_max)) return q_max;
  return static_cast<std::int32_t>(p);
}

template <class C>
PLANCK_HD bool in_range(C v, std::int32_t z, std::int32_t q_min, std::int32_t q_max) {
  const double p = grid_point(v, z);
  return v == v && p >= static_cast<double>(q_min) && p <= static_cast<double>(q_max);
}

// q − z, exact as an integer, rounded once to C.
template <class C>
PLANCK_HD C steps(std::int32_t q, std::int32_t z) {
  return static_cast<C>(static_cast<std::int64_t>(q) - static_cast<std::int64_t>(z));
}

// ---- ordinary groups: the same values, without f64 ---------------------------------------------

// t clamped to [lo, hi]: q − z. NaN counts as 0, and zero is +0: q − z is an integer.
template <class C>
PLANCK_HD C ordinary_steps(C v, C lo, C hi) {
  C c = v == v ? v : C(0);
  c = c < lo ? lo : c;
  c = c > hi ? hi : c;
  return rint_of(c) + C(0);
}

template <class C>
PLANCK_HD bool ordinary_in_range(C v, C lo, C hi) {
  const C t = rint_of(v);  // NaN compares false
  return t >= lo && t <= hi;
}

// The rounded quotient x / s without a division, for kOrdinaryScaleMin <= s <= kOrdinaryScaleMax
// and |x / s| < 2^22. Two Markstein corrections of x * RN(1/s): after the first the estimate is
// within one ulp, so the second rounds correctly. A quotient too small for the residual to be exact
// is far below 1/2 and only its rint is used.
PLANCK_HD float ordinary_quotient(float x, float scale, float inverse) {
  float q = x * inverse;
  q = fma_of(fma_of(-q, scale, x), inverse, q);
  return fma_of(fma_of(-q, scale, x), inverse, q);
}
PLANCK_HD bool has_ordinary_quotient(float scale) {
  return scale >= kOrdinaryScaleMin && scale <= kOrdinaryScaleMax;
}

// Clamping x to [RN(lo·s), RN(hi·s)] first clamps rint(x / s) to [lo, hi] exactly, for an ordinary
// group and scale: rint(RN(lo·s) / s) is lo, because |lo| <= 2^21 moves by less than 1/8, and
// rint(x / s) is monotone in x.

// rint(x / s) of 16-bit values with two operations, in the low bits of the result: for an ordinary
// scale, x and s of at most 11 significant bits, or x clamped as above, and |x / s| <= kSnapReach.
// Near a half-integer, x / s is a fraction with a denominator below 1.01 · 2^13: it is that
// half-integer or differs by more than 0.99 · 2^-13. x · RN(1/s) is off by 2^-15 at most. So
// rounding it to multiples of 2^-13, which the sum with 1.5 · 2^10 does, makes a half-integer of
// what is one and of nothing else; the second sum rounds to integers, ties to even. The low bits of
// a NaN are those of x, and a 16-bit value has none: they read as 0.
// The loops write it out: fma(x, 1/s, kSnapFine) + (kSnapWhole − kSnapFine).
inline constexpr float kSnapReach = 500.0f;
inline constexpr float kSnapFine = 0x1.8p10f, kSnapWhole = 0x1.8p23f;

// The x in range, as an interval: x / s and rint are monotone, so there is a smallest x with
// rint(x / s) >= lo and a largest with rint(x / s) <= hi, within two representable numbers of
// (lo − 1/2) · s and (hi + 1/2) · s. Ordinary groups and scales.
PLANCK_HD float neighbour(float v, std::int32_t steps) {  // v != 0; upwards for steps > 0
  const auto bits = static_cast<std::int32_t>(half_detail::bits_of(v));
  return half_detail::f32_from_bits(static_cast<std::uint32_t>(bits + (bits < 0 ? -steps : steps)));
}
PLANCK_HD float first_in_range(float lo, float scale, float inverse) {
  const float near = (lo - 0.5f) * scale;
  std::int32_t below = 0;
  for (std::int32_t k = -2; k <= 2; ++k)
    below += small_rint(ordinary_quotient(neighbour(near, k), scale, inverse)) < lo ? 1 : 0;
  return neighbour(near, below - 2);
}
PLANCK_HD float last_in_range(float hi, float scale, float inverse) {
  const float near = (hi + 0.5f) * scale;
  std::int32_t above = 0;
  for (std::int32_t k = -2; k <= 2; ++k)
    above += small_rint(ordinary_quotient(neighbour(near, k), scale, inverse)) > hi ? 1 : 0;
  return neighbour(near, 2 - above);
}

// ---- gradients ----------------------------------------------------------------------------------

// Straight through the quantizer: dx = dy / s in range, else 0.
template <class C>
PLANCK_HD C ste(C dy, C scale, bool inside) {
  const C dx = dy / scale;
  return canonical(inside ? dx : C(0));
}

// One term of the gradient of the scale: dy · ((q − z) − v) in range, dy · (q − z) outside.
template <class C>
PLANCK_HD C scale_term(C dy, C v, C steps_of_x, bool inside) {
  return dy * (inside ? steps_of_x - v : steps_of_x);
}

// One term of the gradient of the zero point: 0 in range, −s · dy outside.
template <class C>
PLANCK_HD C zero_point_term(C dy, C scale, bool inside) {
  const C outside = dy * -scale;
  return inside ? C(0) : outside;
}

// ---- scale and zero point from data -------------------------------------------------------------

// The range of a group: of finite values only, and always around 0.
template <class C>
struct DataRange {
  C lo, hi;  // lo <= 0 <= hi
};

template <class C>
PLANCK_HD bool is_finite(C v) {
  return v - v == C(0);
}

template <class C>
PLANCK_HD void include(DataRange<C>& r, C x) {
  const C v = is_finite(x) ? x : C(0);
  r.lo = v < r.lo ? v : r.lo;
  r.hi = v > r.hi ? v : r.hi;
}

// The zero point of symmetric quantization: the middle of the range, 0 for s8 and s4, 128 for u8, 8
// for u4.
PLANCK_HD std::int32_t symmetric_zero_point(std::int32_t q_min, std::int32_t q_max) {
  const std::int32_t sum = q_min + q_max + 1;
  return sum >= 0 ? sum / 2 : -((-sum + 1) / 2);
}

// The scale before it is rounded to the tensor's dtype.
template <class C>
PLANCK_HD C dynamic_scale(const DataRange<C>& r, bool symmetric, std::int32_t q_min,
                          std::int32_t q_max) {
  if (symmetric) {
    const C reach = r.hi > -r.lo ? r.hi : -r.lo;
    return reach / static_cast<C>(q_max - symmetric_zero_point(q_min, q_max));
  }
  const C width = r.hi - r.lo, count = static_cast<C>(q_max - q_min);
  if (is_finite(width)) return width / count;
  return (r.hi / 2 - r.lo / 2) / (count / 2);
}

// A positive scale rounded to T, and kept positive and finite: what would round to zero becomes T's
// smallest positive number, what would round to infinity its largest finite one.
PLANCK_HD double positive_scale(double s, double) { return s > 0 ? s : 0x1p-1074; }
PLANCK_HD float positive_scale(float s, float) { return s > 0 ? s : 0x1p-149f; }
PLANCK_HD f16 positive_scale(float s, f16) {
  const std::uint16_t bits = f16(s).bits;
  return f16::from_bits(bits == 0 ? 1 : bits > 0x7bffu ? 0x7bffu : bits);
}
PLANCK_HD bf16 positive_scale(float s, bf16) {
  const std::uint16_t bits = bf16(s).bits;
  return bf16::from_bits(bits == 0 ? 1 : bits > 0x7f7fu ? 0x7f7fu : bits);
}

// The scale as stored; 1 for a group of zeros.
template <class T, class C>
PLANCK_HD T stored_scale(const DataRange<C>& r, bool symmetric, std::int32_t q_min,
                         std::int32_t q_max) {
  if (r.lo == C(0) && r.hi == C(0)) return T(C(1));
  return positive_scale(dynamic_scale(r, symmetric, q_min, q_max), T{});
}

// scale: as stored.
template <class C>
PLANCK_HD std::int32_t dynamic_zero_point(const DataRange<C>& r, C scale, bool symmetric,
                                          std::int32_t q_min, std::int32_t q_max) {
  if (symmetric) return symmetric_zero_point(q_min, q_max);
  const double z = static_cast<double>(q_min) - static_cast<double>(rint_of(r.lo / scale));
  return z >= static_cast<double>(q_max) ? q_max
                                         : static_cast<std::int32_t>(z);  // r.lo <= 0: z >= q_min
}

}  // namespace planck::quantize_math
