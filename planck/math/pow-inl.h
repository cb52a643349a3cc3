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

// Usual arguments have at most math::usual::kBase here.
HWY_INLINE U base_of(V x) { return hn::Sub(bits_of(hn::Abs(x)), all_bits(0x00800000)); }

// Entry i of a table of 16, by the lower bits of i.
HWY_INLINE V entry_of(const float (&table)[math::log2_detail::kEntries], U i) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_permutexvar_ps(i.raw, hn::LoadU(D(), table).raw)};
#else
  const V first = V{_mm256_permutevar8x32_ps(hn::LoadU(D(), table).raw, i.raw)};
  const V second = V{_mm256_permutevar8x32_ps(hn::LoadU(D(), table + kLanes).raw, i.raw)};
  return V{_mm256_blendv_ps(first.raw, second.raw, from_bits(hn::ShiftLeft<28>(i)).raw)};
#endif
}

// y log2 a = n + f, a > 0; right where n is less than kFar.
struct Exponent {
  V n, f;
};
HWY_INLINE Exponent exponent_of(V y, V log) {
  const V rounder = all(math::Layout<float>::kRounder);
  const V n = hn::Sub(hn::MulAdd(y, log, rounder), rounder);
  return {n, hn::MulSub(y, log, n)};
}
HWY_INLINE V with_exponent(V power, const Exponent& e) {
#if HWY_TARGET == HWY_AVX3
  return scaled(power, e.n);
#else
  return scaled(power, at_most(200.0f, at_least(-200.0f, e.n)));
#endif
}

HWY_INLINE Exponent exponent_of_power(V a, V y) {
  namespace scalar = math::log2_detail;
  static constexpr scalar::Table kTable = scalar::table();
  const U above = hn::Sub(bits_of(a), all_bits(scalar::kLowest));
  const U k = hn::And(above, all_bits(0xff800000u)), i = hn::ShiftRight<scalar::kUnit>(above);
  const V m = from_bits(hn::Sub(bits_of(a), k)),
          exponent = hn::ConvertTo(D(), hn::BitCast(ID(), k));
  const V r = hn::MulSub(m, entry_of(kTable.c, i), all(1.0f)), twice = hn::Add(r, r);
  const V p = hn::NegMulAdd(r, r, twice), p_low = hn::NegMulAdd(r, r, hn::Sub(twice, p));
  const V whole = hn::MulAdd(exponent, all(0x1p-23f), entry_of(kTable.high, i));
  const V half = all(scalar::kHalf), high = hn::MulAdd(half, p, whole);
  const V rest = hn::MulAdd(half, p_low, hn::MulAdd(half, p, hn::Sub(whole, high)));
  const V tail = hn::MulAdd(hn::Mul(r, r), polynomial(r, scalar::terms()), all(scalar::kHalfRest));
  const V low = hn::Add(rest, hn::MulAdd(p, tail, entry_of(kTable.low, i)));
  const Exponent e = exponent_of(y, high);
  return {e.n, hn::MulAdd(y, low, e.f)};
}
HWY_INLINE V power_of(const Exponent& e) {
  return with_exponent(polynomial(e.f, math::exp_detail::exp2_terms()), e);
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

HWY_INLINE Exponent exponent_of_power(V a, V y) {
  const Logarithmic l = logarithmic(a);
  const V f = hn::Sub(l.m, all(1.0f));
  return exponent_of(
      y, hn::MulAdd(l.k, all(0x1p-23f), hn::Mul(f, polynomial(f, scalar::log2_terms()))));
}
HWY_INLINE V power_of(const Exponent& e) {
  return with_exponent(polynomial(e.f, scalar::exp2_terms()), e);
}

}  // namespace narrow

}  // namespace planck::HWY_NAMESPACE::vector_math
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
