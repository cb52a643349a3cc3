// pow over whole vectors, bit for bit those of pow.h and narrow.h (the tests hold it to them) but
// that a NaN may be of any kind. For usual arguments: x is normal, of either sign, y is finite.
// Include after hwy/highway.h, within foreach_target's passes.
#if defined(PLANCK_MATH_POW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_MATH_POW_INL_H_
#undef PLANCK_MATH_POW_INL_H_
#else
#define PLANCK_MATH_POW_INL_H_
#endif

#include "planck/math/narrow-inl.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::vector_math {

// Usual arguments have at most kUsualBase and less than infinity's bits here.
inline constexpr std::uint32_t kUsualBase = 0x7effffff;
HWY_INLINE U base_of(V x) { return hn::Sub(bits_of(hn::Abs(x)), all_bits(0x00800000)); }

// high + low = log a, a > 0.
struct Pair {
  V high, low;
};
HWY_INLINE Pair log_pair(V a) {
  using C = math::log_detail::Constants<float>;
  const Logarithmic l = logarithmic(a);
  const V one = all(1.0f), third = all(math::pow_detail::kTwoThirds<float>);
  const V f = hn::Sub(l.m, one), d = hn::Add(l.m, one), d_low = hn::Sub(l.m, hn::Sub(d, one));
  const V inverse = hn::Div(one, d), s = hn::Mul(f, inverse);
  const V s_low = hn::Mul(inverse, hn::Sub(hn::NegMulAdd(s, d, f), hn::Mul(s, d_low)));
  const V twice = hn::Add(s, s), z = hn::Mul(s, s);
  const V z_low = hn::Add(hn::MulSub(s, s, z), hn::Mul(twice, s_low));
  const V c = hn::Mul(z, s);  // s³
  const V c_low = hn::Add(hn::MulSub(z, s, c), hn::Add(hn::Mul(z, s_low), hn::Mul(z_low, s)));
  const V b = hn::Mul(c, third);
  const V b_low = hn::Add(
      hn::MulSub(c, third, b),
      hn::Add(hn::Mul(c, all(math::pow_detail::kTwoThirdsRest<float>)), hn::Mul(c_low, third)));

  const V whole = hn::Mul(l.k, all(C::kHigh * 0x1p-23f));
  const V sum = hn::Add(whole, twice), sum_low = hn::Add(hn::Sub(whole, sum), twice);
  const V most = hn::Add(sum, b), most_low = hn::Add(hn::Sub(sum, most), b);
  const V rest = hn::Add(hn::MulAdd(all(2.0f), s_low, b_low),
                         hn::MulAdd(hn::Mul(c, z), polynomial(z, math::pow_detail::terms()),
                                    hn::Mul(l.k, all(C::kLow * 0x1p-23f))));
  const V low = hn::Add(hn::Add(sum_low, most_low), rest), high = hn::Add(most, low);
  return {high, hn::Add(hn::Sub(most, high), low)};
}

// |x|^y = e^(high + low). Where |high| is kFar or more the result is 0 or Inf, and not found here.
inline constexpr float kFar = 4096;
HWY_INLINE Pair power_of(V x, V y) {
  const Pair log = log_pair(hn::Abs(x));
  const V p = hn::Mul(y, log.high);
  return {p, hn::Add(hn::MulSub(y, log.high, p), hn::Mul(y, log.low))};
}
HWY_INLINE V exp_of(const Pair& p) {
  using C = math::exp_detail::Constants<float>;
  const Parts parts = parts_of(at_most(C::kHighest, at_least(C::kLowest, p.high)));
  const Factored e = factored(hn::Add(parts.r, p.low), parts.n);
  return scaled(e.factor, e.n);
}

// |x|^y with the sign of an odd power; NaN for a negative x and a y that is not whole. The last bit
// of a number from 2^23 to 2^24, or of one that 2^23 is added to, says whether it is odd.
HWY_INLINE V with_sign_of_power(V size, V x, V y) {
  const V big = all(0x1p23f), a = at_most(0x1p24f, hn::Abs(y)), shifted = hn::Add(a, big);
  const M large = hn::Ge(a, big), whole = hn::Or(large, hn::Eq(hn::Sub(shifted, big), a));
  const V ends = hn::IfThenElse(large, a, shifted);
  const V odd = hn::IfThenElseZero(whole, from_bits(hn::ShiftLeft<31>(bits_of(ends))));
  return hn::IfThenElse(hn::AndNot(whole, hn::MaskFromVec(x)), all(__builtin_nanf("")),
                        hn::Or(size, hn::And(x, odd)));
}

namespace narrow {

HWY_INLINE V power_of(V x, V y) {
  const V product = hn::Mul(y, short_log(hn::Abs(x)));
  return exp_by_root(at_most(91.0f, at_least(-105.0f, product)));
}

}  // namespace narrow

}  // namespace planck::HWY_NAMESPACE::vector_math
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
