// The formulas of log.h that vectors share (docs/design.md, "The math once").

// x = 2^k m, sqrt(1/2) <= m < sqrt(2), of a normal x > 0; k is 2^23 times too large.
template <class N>
struct Logarithmic {
  N m, k;
};
template <class N>
PLANCK_HD Logarithmic<N> logarithmic(N x) {
  const auto bits = bits_of(x);
  const auto k = (bits - math::log_detail::Constants<float>::kRootHalf) & 0xff800000u;
  return {from_bits(bits - k), number_of(k)};
}

// log(1 + f) + k unit ln 2 of f32; unit is a power of two.
template <class N>
PLANCK_HD N assembled_log(N f, N k, float unit) {
  using C = math::log_detail::Constants<float>;
  const N p = polynomial(f, math::log_detail::terms());
  const N y = fma_of(f * f, p, fma_of(k, C::kLow * unit, f));
  return fma_of(k, C::kHigh * unit, y);
}
