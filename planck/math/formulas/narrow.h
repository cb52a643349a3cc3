// The formulas of narrow.h (docs/design.md, "The math once"). T: f16 or bf16.

// x · unit = n + r, |r| <= 1/2; scale = 2^(n + kUp). n + kUp are exponents of normal numbers.
template <class N>
struct Power {
  N scale, r;
};
template <int kUp = 0, class N>
PLANCK_HD Power<N> power_with_rest(N x, float unit) {
  using L = math::Layout<float>;
  constexpr float kShift = L::kRounder + L::kBias + kUp;
  const N t = fma_of(x, unit, kShift);
  return {from_bits(shift_left<L::kMantissa>(bits_of(t))), fma_of(x, unit, kShift - t)};
}
template <class N>
PLANCK_HD N exp2_of(const Power<N>& p) {
  return polynomial(p.r, math::narrow::detail::exp2_terms()) * p.scale;
}

// e^x of bf16 by its root, −105 <= x <= 91.
template <class T, class N>
PLANCK_HD N exp(N x) {
  using namespace math::narrow::detail;
  x = at_most(at_least(x, Range<T>::kLowest), Range<T>::kHighest);
  if constexpr (std::is_same_v<T, f16>) {
    return exp2_of(power_with_rest(x, kLog2E));
  } else {
    const N root = exp2_of(power_with_rest(x, 0.5f * kLog2E));
    return root * root;
  }
}

// Of x >= kLowest.
template <class T, class N>
PLANCK_HD N sigmoid_above(N x) {
  constexpr int kUp = math::narrow::kSigmoidUp<T>;
  const N e = exp2_of(power_with_rest<kUp>(at_most(x, 20.0f), math::narrow::detail::kLog2E));
  if constexpr (kUp == 0)
    return e * reciprocal_of(e + 1.0f);
  else
    return e * reciprocal_of(fma_of(e, 0x1p-64f, 1.0f)) * 0x1p-64f;
}
template <class T, class N>
PLANCK_HD N sigmoid(N x) {
  return sigmoid_above<T>(at_least(x, math::narrow::detail::Range<T>::kLowest));
}
template <class T, class N>
PLANCK_HD N silu(N x) {
  x = at_least(x, math::narrow::detail::Range<T>::kLowest);
  return sigmoid_above<T>(x) * x;
}

template <class T, class N>
PLANCK_HD N tanh(N x) {
  using namespace math::narrow::detail;
  const N bounded = at_most(at_least(x, -10.0f), 10.0f);
  const Power<N> p = power_with_rest(bounded, 2.0f * kLog2E);
  const N e = fma_of(p.scale, p.r * polynomial(p.r, exp2_tail_terms()), p.scale - 1.0f);
  return with_sign(e * reciprocal_of(e + 2.0f), x);  // −0 is kept
}

// Φ(−a) is kept 2^100 times too large: see sigmoid. With −0 for 0 the sign of x is kept.
template <class T, class N>
PLANCK_HD N gelu(N x) {
  using namespace math::narrow::detail;
  const N a = at_most(abs_of(x), kGeluFar<T>);
  const N size = exp2_of(power_with_rest<100>(polynomial(a, log2_tail_terms<T>()), 1.0f));
  return fma_of(a * size, -0x1p-100f, at_least(x, -0.0f));
}

// log and log2 of 2^k m.
template <class N>
PLANCK_HD N short_log(const Logarithmic<N>& l) {
  const N f = l.m - 1.0f;
  return fma_of(l.k, 0x1.62e43p-24f, f * polynomial(f, math::narrow::detail::log_terms()));
}
template <class N>
PLANCK_HD N short_log2(const Logarithmic<N>& l) {
  const N f = l.m - 1.0f;
  return fma_of(l.k, 0x1p-23f, f * polynomial(f, math::narrow::detail::log2_terms()));
}

// π in two parts: enough for every f16, and for every bf16 that is not far from zero.
template <class N>
PLANCK_HD N sin_near(N x) {
  constexpr float kRounder = math::Layout<float>::kRounder;
  const N t = fma_of(x, 0x1.45f306p-2f, kRounder), n = t - kRounder;
  const N r = fma_of(n, -0x1.4442d2p-23f, fma_of(n, -0x1.921fb4p1f, x)), z = r * r;
  const N y = r * fma_of(z, polynomial(z, math::narrow::detail::sin_terms()), 1.0f);
  return from_bits(bits_of(y) ^ shift_left<31>(bits_of(t)));
}

// 2^(n + f), rounded once.
template <class N>
PLANCK_HD N short_power(const Exponent<N>& e) {
  return scaled_by_number(polynomial(e.f, math::narrow::detail::exp2_terms()), e.n);
}
