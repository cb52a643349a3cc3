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

// e^(x + rest) = factor · 2^n with 0.7 < factor < 1.5, −170 < x < 0 (f64: −1400).
template <class T>
struct Factored {
  T factor;
  SignedOf<T> n;
};
template <class T>
PLANCK_HD Factored<T> factored_exp(T x, T rest) {
  const auto p = exp_detail::parts_of(x);
  const T r = p.r + rest;
  return {fma_of(r * r, exp_detail::tail(r), r) + T(1), p.n};
}

// (tanh x − x) / x³ as numerator / denominator, z = x² <= 0.625². Errors of the product with z:
// 2^-27.8, 2^-56.6.
template <class T>
struct Quotient {
  T numerator, denominator;
};
PLANCK_HD constexpr Terms<5> tanh_terms() {
  return {{-0x1.555534p-2f, 0x1.11078ap-3f, -0x1.b847dcp-5f, 0x1.526ad2p-6f, -0x1.76faa6p-8f}};
}
PLANCK_HD Quotient<float> tanh_tail(float z) { return {polynomial(z, tanh_terms()), 1.0f}; }
PLANCK_HD Quotient<double> tanh_tail(double z) {
  return {polynomial(z, -0x1.5555555555555p-2, -0x1.5f15f15f15f16p-6, -0x1.001001001001p-12,
                     -0x1.2eb177e905d76p-26),
          polynomial(z, 0x1p0, 0x1.db6db6db6db6ep-2, 0x1.9219219219219p-6, 0x1.0bb3a3f46dd28p-12)};
}

}  // namespace sigmoid_detail

template <class T>
PLANCK_HD T tanh(T x) {
  const T a = abs_of(x), z = a * a;
  const bool small = a < T(0.625);
  const auto tail = sigmoid_detail::tanh_tail(small ? z : T(0));
  const T bounded = a > T(22) ? T(22) : a;  // tanh is 1 there
  const T e = exp(bounded + bounded);
  // One division for both, so that neither becomes a branch.
  const T q = (small ? tail.numerator : T(2)) / (small ? tail.denominator : e + T(1));
  const T inner = fma_of(a * z, q, a), outer = T(1) - q;
  return canonical(with_sign(small ? inner : outer, x));
}

template <class T>
PLANCK_HD T sigmoid(T x) {
  const T e = exp(-abs_of(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

template <class T>
PLANCK_HD T silu(T x) {
  constexpr T kFar = sizeof(T) == 4 ? T(120) : T(800);  // x e^-|x| is 0 from here on
  const T a = abs_of(x) > kFar ? kFar : abs_of(x);
  const auto p = sigmoid_detail::factored_exp(-a, T(0));
  const bool negative = x < T(0);
  const T y = (negative ? -a * p.factor : x) / (T(1) + scaled(p.factor, p.n));
  return canonical(negative ? scaled(y, p.n) : y);
}

template <class T>
PLANCK_HD T softplus(T x) {
  const T rest = log1p(exp(-abs_of(x)));
  return canonical((x > T(0) ? x : T(0)) + rest);
}

}  // namespace planck::math
