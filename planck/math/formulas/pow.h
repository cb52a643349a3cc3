// The formulas of pow.h that vectors share, f32 (docs/design.md, "The math once").

// y log = n + f, where that is less than 2^22.
template <class N>
struct Exponent {
  N n, shifted, f;  // shifted: n + kRounder
};
template <class N>
PLANCK_HD Exponent<N> exponent_of(N y, N log) {
  constexpr float kRounder = math::Layout<float>::kRounder;
  const N shifted = fma_of(y, log, kRounder), n = shifted - kRounder;
  return {n, shifted, fms_of(y, log, n)};
}
template <class N>
PLANCK_HD Exponent<N> exponent_of(N y, const Log2<N>& log) {
  const Exponent<N> e = exponent_of(y, log.high);
  return {e.n, e.shifted, fma_of(y, log.low, e.f)};
}
// 2^(n + f), rounded once.
template <class N>
PLANCK_HD N power_of(const Exponent<N>& e) {
  return scaled_by_number(polynomial(e.f, math::exp_detail::exp2_terms()), e.n);
}
