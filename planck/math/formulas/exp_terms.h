// The formulas of exp_terms.h (docs/design.md, "The math once").

// z = n L + r, e(z) = factor · 2^n; n + kOffset is in the low bits of `up`.
template <int kOffset, class N>
PLANCK_HD ShortExp<N> term_parts(N z) {
  constexpr float kShift = math::Layout<float>::kRounder + static_cast<float>(kOffset);
  const N up = fma_of(z, math::exp_detail::Constants<float>::kInverse, kShift), n = up - kShift;
  const N r = fma_of(n, -math::kTermUnit, z);
  const N tail = polynomial(r, math::exp_detail::tail_terms<float>());
  return {fma_of(fma_of(tail, r, 1.0f), r, 1.0f), n, up};
}

// Of z <= 70 or NaN: 2^n is 2^(n + 25) 2^-25, and only the second product rounds.
template <class N>
PLANCK_HD N exp_term(N z) {
  constexpr int kUp = 25;
  const auto e = term_parts<math::Layout<float>::kBias + kUp>(
      at_least(z, math::exp_detail::Constants<float>::kLowest));
  return scaled_down<kUp>(e.factor, e.n, e.up);
}
// Of −kTermNear <= z <= 70, where results are normal numbers.
template <class N>
PLANCK_HD N exp_term_near(N z) {
  const auto e = term_parts<0>(z);
  return with_exponent(e.factor, e.up);
}
