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

// |x|^y with the sign of an odd power; NaN for a negative x and a y that is not whole. The last bit
// of a number from 2^23 to 2^24, or of one that 2^23 is added to, says whether it is odd.
HWY_INLINE V with_sign_of_power(V size, V x, V y) {
  const V big = all(0x1p23f), a = at_most(hn::Abs(y), 0x1p24f), shifted = hn::Add(a, big);
  const M large = hn::Ge(a, big), whole = hn::Or(large, hn::Eq(hn::Sub(shifted, big), a));
  const V ends = hn::IfThenElse(large, a, shifted);
  const V odd = hn::IfThenElseZero(whole, from_bits(hn::ShiftLeft<31>(bits_of(ends))));
  return hn::IfThenElse(hn::AndNot(whole, hn::MaskFromVec(x)), all(__builtin_nanf("")),
                        hn::Or(size, hn::And(x, odd)));
}

}  // namespace planck::HWY_NAMESPACE::vector_math
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
