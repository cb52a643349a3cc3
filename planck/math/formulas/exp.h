// The formulas of exp.h (docs/design.md, "The math once").

// x = n ln 2 + r, |r| <= ln 2 / 2; shifted: n + kRounder.
template <class N>
struct ExpParts {
  N n, shifted, r;
};
template <class N>
PLANCK_HD ExpParts<N> exp_parts(N x) {
  using C = math::exp_detail::Constants<Element<N>>;
  constexpr Element<N> kRounder = math::Layout<Element<N>>::kRounder;
  const N shifted = fma_of(x, C::kInverse, kRounder), n = shifted - kRounder;
  return {n, shifted, fma_of(n, -C::kLow, fma_of(n, -C::kHigh, x))};
}

// e^r − 1 and e^r.
template <class N>
PLANCK_HD N expm1_of_rest(N r) {
  return fma_of(r * r, polynomial(r, math::exp_detail::tail_terms<Element<N>>()), r);
}
template <class N>
PLANCK_HD N exp_of_rest(N r) {
  return expm1_of_rest(r) + Element<N>(1);
}

// x between bounds past which the result does not change. NaN stays.
template <class N>
PLANCK_HD N exp_bounded(N x) {
  using C = math::exp_detail::Constants<Element<N>>;
  return at_most(at_least(x, C::kLowest), C::kHighest);
}

template <class N>
PLANCK_HD N exp_any_nan(N x) {
  const ExpParts<N> p = exp_parts(exp_bounded(x));
  return scaled(exp_of_rest(p.r), p.n, p.shifted);
}
template <class N>
PLANCK_HD N exp(N x) {
  return finished(exp_any_nan(x));
}

// power · 2^n; n lies in the low bits of `up`, and the result is a normal number.
template <class N>
PLANCK_HD N with_exponent(N power, N up) {
  return from_bits(bits_of(power) + shift_left<math::Layout<float>::kMantissa>(bits_of(up)));
}

// Of f32, where something is known of x: e^x = factor · 2^n. n + kOffset is in the low bits of
// `up`.
template <class N>
struct ShortExp {
  N factor, n, up;
};
template <int kOffset, class N>
PLANCK_HD ShortExp<N> short_exp(N x) {
  using C = math::exp_detail::Constants<float>;
  constexpr float kShift = math::Layout<float>::kRounder + static_cast<float>(kOffset);
  const N up = fma_of(x, C::kInverse, kShift), n = up - kShift;
  return {exp_of_rest(fma_of(n, -C::kLow, fma_of(n, -C::kHigh, x))), n, up};
}

// Of x <= 0 or NaN, which stays one of any kind. 2^n is 2^(n + 25) 2^-25: only the second product
// rounds.
template <class N>
PLANCK_HD N exp_below(N x) {
  constexpr int kUp = 25;
  const auto e = short_exp<math::Layout<float>::kBias + kUp>(
      at_least(x, math::exp_detail::Constants<float>::kLowest));
  return scaled_down<kUp>(e.factor, e.n, e.up);
}
// Of |x| <= kExpNear, where results are normal numbers: neither a bound nor a product is needed.
template <class N>
PLANCK_HD N exp_near(N x) {
  const auto e = short_exp<0>(x);
  return with_exponent(e.factor, e.up);
}
