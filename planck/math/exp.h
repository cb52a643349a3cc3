// exp and expm1.
//
//   x = n ln 2 + r, |r| <= ln 2 / 2;   e^r − 1 = r + r² P(r)
//   exp = 2^n (1 + (r + r² P))         expm1 = 2^n (r + r² P) + (2^n − 1)
//
// ln 2 is split so that n · high is exact. exp overflows to Inf past 88.72 (f64: 709.78), is
// subnormal below −87.34 (−708.4) and 0 below −103.97 (−745.13).
#pragma once

#include "planck/math/float_bits.h"

namespace planck::math {

namespace exp_detail {

template <class T>
struct Constants;
template <>
struct Constants<float> {
  static constexpr float kInverse = 0x1.715476p0f, kHigh = 0x1.62e4p-1f, kLow = 0x1.7f7d1cp-20f;
  static constexpr float kLowest = -104.0f, kHighest = 89.0f;
};
template <>
struct Constants<double> {
  static constexpr double kInverse = 0x1.71547652b82fep0, kHigh = 0x1.62e42fefa4p-1,
                          kLow = -0x1.8432a1b0e2634p-43;
  static constexpr double kLowest = -746.0, kHighest = 710.0;
};

// (e^r − 1 − r) / r². Errors of the product with r²: 2^-28.2 and 2^-58.0.
template <class T>
PLANCK_HD constexpr auto tail_terms() {
  if constexpr (sizeof(T) == 4)
    return Terms<5>{{0x1p-1f, 0x1.55549p-3f, 0x1.55545ep-5f, 0x1.123b46p-7f, 0x1.6db406p-10f}};
  else
    return WideTerms<10>{{0x1.000000000000bp-1, 0x1.5555555555561p-3, 0x1.55555555500a1p-5,
                          0x1.111111110d575p-7, 0x1.6c16c18593edep-10, 0x1.a01a01bb277f7p-13,
                          0x1.a01996bf08c2ep-16, 0x1.71dddf310e283p-19, 0x1.28b027272e11cp-22,
                          0x1.af86784ab7f42p-26}};
}

// 2^f, |f| <= 1/2: error 2^-27.5, with its roundings 0.82 units in the last place.
PLANCK_HD constexpr Terms<7> exp2_terms() {
  return {{1.0f, 0x1.62e432p-1f, 0x1.ebfbe8p-3f, 0x1.c6adb6p-5f, 0x1.3b21cap-7f, 0x1.5fbcc4p-10f,
           0x1.4bde38p-13f}};
}

}  // namespace exp_detail

inline constexpr float kExpNear = 86.0f;  // see exp_near

#include "planck/math/formulas/exp.h"

PLANCK_HD double exp_below(double x) { return exp_any_nan(x); }
PLANCK_HD double exp_near(double x) { return exp_any_nan(x); }

template <class T>
PLANCK_HD T expm1(T x) {
  const auto p = exp_parts(exp_bounded(x));
  const T q = expm1_of_rest(p.r);
  // By half of 2^n, which is finite where 2^n may not be; below 2^-60 it no longer counts.
  const SignedOf<T> n = integer_of(p.shifted);
  const T half = power_of_two<T>((n < -60 ? SignedOf<T>(-60) : n) - 1);
  const T y = T(2) * fma_of(half, q, half - T(0.5));
  return canonical(with_sign(n == 0 ? q : y, x));  // −0 is kept
}

}  // namespace planck::math
