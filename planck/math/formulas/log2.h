// The formula of log2.h (docs/design.md, "The math once").

// log2 x = high + low.
template <class N>
struct Log2 {
  N high, low;
};
// Of a normal x > 0, or of 2^-down x.
template <class N, class... Down>
PLANCK_HD Log2<N> log2_pair(N x, Down... down) {
  using namespace math::log2_detail;
  static constexpr Table kTable = table();
  const auto above = bits_of(x) - kLowest, k = above & 0xff800000u, i = shift_right<kUnit>(above);
  const N exponent = number_of(k);  // times 2^23
  const N r = fma_of(from_bits(bits_of(x) - k), entry_of(kTable.c, i), -1.0f), twice = r + r;
  const N p = fnma_of(r, r, twice), p_low = fnma_of(r, r, twice - p);
  const N whole = (fma_of(exponent, 0x1p-23f, entry_of(kTable.high, i)) - ... - down);
  const N high = fma_of(p, kHalf, whole);
  const N rest = fma_of(p_low, kHalf, fma_of(p, kHalf, whole - high));
  const N tail = fma_of(r * r, polynomial(r, terms()), kHalfRest);
  return {high, rest + fma_of(p, tail, entry_of(kTable.low, i))};
}
