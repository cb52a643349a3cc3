// Functions that are made of exp: tanh, sigmoid, silu, softplus.
//
//   tanh      |x| < 0.625: x + x³ P(x²) (f64: a quotient of polynomials); else 1 − 2 / (e^2|x| + 1)
//   sigmoid   e = e^-|x|;  1 / (1 + e) for x >= 0, e / (1 + e) below: nothing overflows or cancels
//   silu      x sigmoid(x), scaled last: exact to the end of the subnormals. silu(−Inf) = −0
//   softplus  max(x, 0) + log1p(e^-|x|)
#pragma once

#include "planck/math/exp.h"
#include "planck/math/log.h"

namespace planck::math {

namespace sigmoid_detail {

// (tanh x − x) / x³, z = x² <= 0.625², in f64 as numerator / denominator. Errors of the product
// with z: 2^-27.8, 2^-56.6.
struct Quotient {
  double numerator, denominator;
};
PLANCK_HD constexpr Terms<5> tanh_terms() {
  return {{-0x1.555534p-2f, 0x1.11078ap-3f, -0x1.b847dcp-5f, 0x1.526ad2p-6f, -0x1.76faa6p-8f}};
}
PLANCK_HD Quotient tanh_tail(double z) {
  return {polynomial(z, -0x1.5555555555555p-2, -0x1.5f15f15f15f16p-6, -0x1.001001001001p-12,
                     -0x1.2eb177e905d76p-26),
          polynomial(z, 0x1p0, 0x1.db6db6db6db6ep-2, 0x1.9219219219219p-6, 0x1.0bb3a3f46dd28p-12)};
}

}  // namespace sigmoid_detail

PLANCK_HD float tanh(float x) {
  const float a = abs_of(x), z = a * a;
  const float inner = fma_of(a * z, polynomial(z, sigmoid_detail::tanh_terms()), a);
  const float bounded = at_most(a, 22.0f);  // tanh is 1 there
  const auto e = short_exp<Layout<float>::kBias>(bounded + bounded);
  const float power = e.factor * from_bits(bits_of(e.up) << Layout<float>::kMantissa);
  const float outer = fma_of(-2.0f, reciprocal_of(power + 1.0f), 1.0f);
  return canonical(with_sign(a < 0.625f ? inner : outer, x));
}
PLANCK_HD double tanh(double x) {
  const double a = abs_of(x), z = a * a;
  const bool small = a < 0.625;
  const auto tail = sigmoid_detail::tanh_tail(small ? z : 0.0);
  const double bounded = a > 22 ? 22 : a;
  const double e = exp(bounded + bounded);
  // One division for both, so that neither becomes a branch.
  const double q = (small ? tail.numerator : 2.0) / (small ? tail.denominator : e + 1.0);
  const double inner = fma_of(a * z, q, a), outer = 1.0 - q;
  return canonical(with_sign(small ? inner : outer, x));
}

#include "planck/math/formulas/sigmoid.h"

template <class T>
PLANCK_HD T softplus(T x) {
  const T rest = log1p(exp(-abs_of(x)));
  return canonical((x > T(0) ? x : T(0)) + rest);
}

}  // namespace planck::math
