// erf and the exact form of gelu, x Φ(x) with Φ the normal distribution.
//
//   erf    |x| < 1: x + x P(x²);  else 1 − e^-Q(|x|), Q a polynomial
//   Φ(−a)  = e^(−a²/2) u R(t),  u = 1 / (a + c);  a² is kept in two parts
//   gelu   f32: max(x, 0) − t R(t) 2^(−a²/2 log2 e), a = |x|, t = a u: nothing cancels, as
//          Φ(−a) <= 1/2; scaled last, so exact to the end of the subnormals. gelu(−Inf) = −0
//          f64: the same with t = (a − c) u; for |x| < 1 x Φ(x), Φ(x) = 1/2 + x M(x²)
#pragma once

#include "planck/math/sigmoid.h"

namespace planck::math {

namespace erf_detail {

// erf(x) / x − 1 for z = x² <= 1: errors 2^-29.7, 2^-57.0.
PLANCK_HD constexpr Terms<7> inner_terms() {
  return {{0x1.06eba8p-3f, -0x1.81273ep-2f, 0x1.ce2d2p-4f, -0x1.b7fbb6p-6f, 0x1.5419fap-8f,
           -0x1.a485f8p-11f, 0x1.4ae4c6p-14f}};
}
PLANCK_HD float inner(float z) { return polynomial(z, inner_terms()); }
PLANCK_HD double inner(double z) {
  return polynomial(z, 0x1.06eba8214db68p-3, -0x1.812746b0379c2p-2, 0x1.ce2f21a041018p-4,
                    -0x1.b82ce312062bcp-6, 0x1.565bccfa9a825p-8, -0x1.c02db072f3fep-11,
                    0x1.f9a2bf73f0c68p-14, -0x1.f4ca94990cb86p-17, 0x1.b9827b1885f9bp-20,
                    -0x1.5c16e30fb0d45p-23, 0x1.d784936618cc2p-27, -0x1.acdff90b8ebd8p-31);
}

// −log(erfc(a)) from 1 to where erf rounds to 1 (3.95, 5.95): errors of erfc 2^-29.9, 2^-57.1.
PLANCK_HD constexpr Terms<7> outer_terms() {
  return {{0x1.72ea0ap-12f, 0x1.2085b2p0f, 0x1.46c588p-1f, 0x1.a60a6ep-4f, -0x1.6541f6p-6f,
           0x1.814c8p-9f, -0x1.852caep-13f}};
}
PLANCK_HD float outer(float a) { return polynomial(a, outer_terms()); }
inline constexpr float kErfOne = 3.95f;
PLANCK_HD double outer(double a) {
  return polynomial(a, 0x1.139c0274a3e6dp-21, 0x1.20dd1e2b0c898p0, 0x1.45f635d46b42fp-1,
                    0x1.a4ab242624d84p-4, -0x1.371981b4548f3p-6, -0x1.b1aa02535acd7p-12,
                    0x1.f70ced16dca07p-10, -0x1.95506d2443c35p-11, 0x1.1e6b0bceea3cp-13,
                    0x1.47619e8b906a8p-16, -0x1.79f9ffa5f50ap-16, 0x1.1fd146b32f2edp-17,
                    -0x1.1bce765b7429fp-19, 0x1.8cc384ee5a25dp-22, -0x1.8a816d507ea2cp-25,
                    0x1.0b46f9c49efd8p-28, -0x1.bc338b18debd6p-33, 0x1.564969e4cd1fdp-38);
}

// (a + c) e^(a²/2) Φ(−a): relative errors 2^-25.2, 2^-59.3. For f32 in t = a / (a + c), c = 2.95,
// and with the rest of log2(e) / 2 that kHalfLog2E does not hold; c chosen by trial. For f64 in
// t = (a − c) / (a + c), c = 4.
inline constexpr float kRatioShift = 0x1.794p1f, kHalfLog2E = 0x1.715476p-1f;
inline constexpr float kGeluFar = 14.5f;  // a Φ(−a) rounds to 0 from here on
PLANCK_HD constexpr Terms<9> ratio_terms() {
  return {{0x1.794p0f, -0x1.fde204p0f, 0x1.e2e414p-1f, 0x1.f68828p-3f, -0x1.d9637cp-3f,
           -0x1.5f78fep-4f, -0x1.51c2bep-4f, 0x1.a55dfep-3f, -0x1.3f057ap-4f}};
}
PLANCK_HD double ratio(double t) {
  return polynomial(
      t, 0x1.82b4bb8c94dcep-1, -0x1.373e3a893c28ap-1, 0x1.8c6dbf2cfc2b5p-2, -0x1.7dff2bff68399p-3,
      0x1.eec4cc3e4d1ffp-5, -0x1.ee2761047f31ep-8, -0x1.c81719d53e645p-9, 0x1.ab825fc0fa0fp-10,
      0x1.17a4ae29e61b3p-13, -0x1.e4a4256dfaa72p-13, -0x1.001e483d8fb8dp-19, 0x1.26d09970df61bp-15,
      0x1.80b164361913ap-21, -0x1.8d4b1ee3bc549p-18, -0x1.51e40ba5fb6ddp-21, 0x1.1236bb4301e99p-20,
      0x1.233ba90dbc2acp-22, -0x1.4cec6d11b6fc3p-23, -0x1.6c20d0bcd3199p-24, 0x1.ce4a77fca7467p-27,
      0x1.4a56bc3507e14p-26, 0x1.e30697fb7aa69p-30, -0x1.4c1b214aa1d36p-29, -0x1.70d3d53bce9bap-31);
}

// (Φ(x) − 1/2) / x for z = x² <= 1: error 2^-56.8.
PLANCK_HD double middle(double z) {
  return polynomial(z, 0x1.9884533d4365p-2, -0x1.1058377e2ce7p-4, 0x1.46d0429761d5bp-7,
                    -0x1.37403f68b3f49p-10, 0x1.e42b0c2017e84p-14, -0x1.3ce8d6d03f404p-17,
                    0x1.6584fab9dbf1p-21, -0x1.61acf90c94169p-25, 0x1.3219a1d0b2133p-29,
                    -0x1.8d10b8122b94ap-34);
}

}  // namespace erf_detail

template <class T>
PLANCK_HD T erf(T x) {
  constexpr T kOne = sizeof(T) == 4 ? T(erf_detail::kErfOne) : T(5.95);  // 1 from here on
  const T a = abs_of(x);
  const bool inside = a < T(1);
  const T small = fma_of(a, erf_detail::inner(a * a), a);
  const T bounded = a > kOne ? kOne : a;
  const T large = T(1) - exp(-erf_detail::outer(bounded));
  return canonical(with_sign(inside ? small : large, x));
}

#include "planck/math/formulas/gelu.h"

PLANCK_HD double gelu(double x) {
  constexpr double kFar = 40;  // Φ(−a) is 0 from here on
  const double a = abs_of(x) > kFar ? kFar : abs_of(x);
  const bool negative = x < 0;
  const double square = a * a, rest = fma_of(a, a, -square);
  const auto e = exp_parts(-0.5 * square);
  const double u = 1.0 / (a + 4.0);
  const double r = u * erf_detail::ratio((a - 4.0) * u);
  const double tail =
      scaled(exp_of_rest(e.r - 0.5 * rest) * (negative ? -a * r : r), e.n, e.shifted);
  const double outside = negative ? tail : x > kFar ? x : fma_of(-x, tail, x);
  const double inside = x * fma_of(x, erf_detail::middle(square), 0.5);
  return canonical(abs_of(x) < 1.0 ? inside : x != x ? x : outside);
}

}  // namespace planck::math
