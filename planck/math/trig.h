// sin and cos of any argument.
//
//   x = n π/2 + r, |r| <= π/4
//   sin r = r + r³ S(r²)    cos r = 1 − r²/2 + r⁴ C(r²)
//
// Near zero (|x| <= kNear) n π/2 is taken away in three parts by fused multiply-adds. The first is
// exact: π/2's first part and x are multiples of its last place, and the difference is small.
// Farther out, n and r come from the bits of 2/π that matter for x's exponent (Payne and Hanek,
// 1983). That is a branch; loops that should vectorize use sin_near and cos_near and look after
// |x| > kNear themselves. sin and cos of ±Inf are NaN.
#pragma once

#include "planck/math/float_bits.h"
#include "planck/math/two_over_pi.h"

namespace planck::math {

namespace trig_detail {

template <class T>
struct Constants;
template <>
struct Constants<float> {
  static constexpr float kNear = 105615.0f, kInverse = 0x1.45f306p-1f;
  static constexpr float kFirst = 0x1.921fb6p0f, kSecond = -0x1.777a5cp-25f,
                         kThird = -0x1.ee59dap-50f;
};
template <>
struct Constants<double> {
  static constexpr double kNear = 1e9, kInverse = 0x1.45f306dc9c883p-1;
  static constexpr double kFirst = 0x1.921fb54442d18p0, kSecond = 0x1.1a62633145c07p-54,
                          kThird = -0x1.f1976b7ed8fbcp-110;
};

// Errors of the products with r², r⁴: 2^-28.0, 2^-33.2; 2^-58.0, 2^-64.0.
PLANCK_HD constexpr Terms<3> sin_terms() {
  return {{-0x1.555546p-3f, 0x1.11075cp-7f, -0x1.994cdp-13f}};
}
PLANCK_HD constexpr Terms<3> cos_terms() {
  return {{0x1.55554ap-5f, -0x1.6c0c94p-10f, 0x1.9a03acp-16f}};
}
PLANCK_HD float sin_tail(float z) { return polynomial(z, sin_terms()); }
PLANCK_HD float cos_tail(float z) { return polynomial(z, cos_terms()); }
PLANCK_HD double sin_tail(double z) {
  return polynomial(z, -0x1.5555555555549p-3, 0x1.111111110f899p-7, -0x1.a01a019c1311ep-13,
                    0x1.71de357788704p-19, -0x1.ae5e6538310cp-26, 0x1.5d9282a426a0ep-33);
}
PLANCK_HD double cos_tail(double z) {
  return polynomial(z, 0x1.555555555554ep-5, -0x1.6c16c16c154dep-10, 0x1.a01a019cfa1a7p-16,
                    -0x1.27e4f837cc991p-22, 0x1.1eea07b714324p-29, -0x1.8fbb9cea3f4a3p-37);
}

template <class T>
PLANCK_HD Reduced<T> reduce_near(T x) {
  using C = Constants<T>;
  const Rounded<T> n = rounded_multiple(x, C::kInverse);
  T r = fma_of(n.value, -C::kFirst, x);
  r = fma_of(n.value, -C::kSecond, r);
  r = fma_of(n.value, -C::kThird, r);
  return {r, static_cast<UnsignedOf<T>>(n.integer)};
}

// sin(r + quadrant π/2).
template <class T>
PLANCK_HD T sin_of(const Reduced<T>& a) {
  using U = UnsignedOf<T>;
  const T z = a.r * a.r;
  const T s = fma_of(a.r * z, sin_tail(z), a.r);
  const T c = fma_of(z, fma_of(z, cos_tail(z), T(-0.5)), T(1));
  const T y = (a.quadrant & 1) != 0 ? c : s;
  return from_bits(bits_of(y) ^ ((a.quadrant & 2) << (sizeof(U) * 8 - 2)));
}

}  // namespace trig_detail

// Whether x needs sin and cos; NaN does not.
template <class T>
PLANCK_HD bool far_from_zero(T x) {
  return abs_of(x) > trig_detail::Constants<T>::kNear;
}

template <class T>
PLANCK_HD T sin_near(T x) {
  const T y = trig_detail::sin_of(trig_detail::reduce_near(x));
  return x == T(0) ? x : canonical(y);  // −0 is kept
}

template <class T>
PLANCK_HD T cos_near(T x) {
  Reduced<T> a = trig_detail::reduce_near(x);
  a.quadrant += 1;
  return canonical(trig_detail::sin_of(a));
}

template <class T>
PLANCK_HD T sin(T x) {
  if (!far_from_zero(x)) return sin_near(x);
  return trig_detail::sin_of(reduce_far(x));
}

template <class T>
PLANCK_HD T cos(T x) {
  if (!far_from_zero(x)) return cos_near(x);
  Reduced<T> a = reduce_far(x);
  a.quadrant += 1;
  return trig_detail::sin_of(a);
}

}  // namespace planck::math
