// The elementary functions of f32 over whole vectors, bit for bit those of elementary.h (the tests
// hold them to it) but that a NaN may be of any kind. Most are the formulas of formulas/, compiled
// for the vectors of each instruction set; here stands what vectors do in another way: two
// polynomials of which one is wanted are one with chosen terms, and what a special value needs is
// left out where another step already gives it, or is done for all vectors of a loop's step once
// one of them has it.
//
// What counts on Zen 4 (512 bits): a product, fma or comparison takes one of the cycles of two
// pipes, a sum, bound or shift one of two others, scaling two of these, a division two of the first
// and six of the divider; logic, choices and integer sums go wherever there is room.
//
// For instruction sets with fused multiply-add (PLANCK_VECTOR_MATH). Include after hwy/highway.h,
// within foreach_target's passes.
#if defined(PLANCK_MATH_ELEMENTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_MATH_ELEMENTARY_INL_H_
#undef PLANCK_MATH_ELEMENTARY_INL_H_
#else
#define PLANCK_MATH_ELEMENTARY_INL_H_
#endif

#include "planck/math/elementary.h"
#include "planck/math/exp_terms.h"
#include "planck/math/float_bits-inl.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::vector_math {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
using UD = hn::RebindToUnsigned<D>;
using U = hn::Vec<UD>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

HWY_INLINE V all(float value) { return hn::Set(D(), value); }
HWY_INLINE U all_bits(std::uint32_t value) { return hn::Set(UD(), value); }

using math::kExpNear;
using math::kTermNear;

#include "planck/math/formulas/exp.h"
#include "planck/math/formulas/exp_terms.h"
#include "planck/math/formulas/log.h"
#include "planck/math/formulas/sigmoid.h"

// The polynomial `yes` or, where the mask is not set, `no`. Terms that one of them lacks are 0,
// which changes nothing: x is finite where they count.
template <int kYes, int kNo>
HWY_INLINE V polynomial(V x, M mask, const math::Terms<kYes>& yes, const math::Terms<kNo>& no) {
  constexpr int kTerms = kYes > kNo ? kYes : kNo;
  const auto term = [&](int k) HWY_ATTR {
    return hn::IfThenElse(mask, all(k < kYes ? yes.c[k] : 0.0f), all(k < kNo ? no.c[k] : 0.0f));
  };
  V sum = term(kTerms - 1);
  for (int k = kTerms - 1; k-- > 0;) sum = hn::MulAdd(sum, x, term(k));
  return sum;
}

// Near zero and away from it a polynomial of the same kind is wanted, b + (b w) P(w): b and w are x
// and x² or twice r, so that one is enough for both.
HWY_INLINE V tanh(V x) {
  const V a = hn::Abs(x), z = a * a, bounded = at_most(a, 22.0f);
  const M small = hn::Lt(a, all(0.625f));
  const ExpParts<V> p = exp_parts(bounded + bounded);
  const V b = choose(small, a, p.r), w = choose(small, z, p.r);
  const V poly = polynomial(w, small, math::sigmoid_detail::tanh_terms(),
                            math::exp_detail::tail_terms<float>());
  const V near = fma_of(b * w, poly, b);
  const V e = scaled(near + 1.0f, p.n, p.shifted);
  const V far = 1.0f - all(2.0f) / (e + 1.0f);
  return hn::CopySignToAbs(choose(small, near, far), x);
}

// Inside 1 and outside, two polynomials of as many terms.
HWY_INLINE V erf(V x) {
  const V a = hn::Abs(x), bounded = at_most(a, math::erf_detail::kErfOne);
  const M inside = hn::Lt(a, all(1.0f));
  const V poly = polynomial(choose(inside, a * a, bounded), inside, math::erf_detail::inner_terms(),
                            math::erf_detail::outer_terms());
  const V small = fma_of(a, poly, a), large = 1.0f - exp(hn::Neg(poly));
  return hn::CopySignToAbs(choose(inside, small, large), x);
}

#include "planck/math/formulas/gelu.h"

// y, or the logarithm of an x that is 0, negative, infinite or NaN.
HWY_INLINE V with_special_logs(V y, V x) {
#if HWY_TARGET == HWY_AVX3
  constexpr int kKeep = 0, kQuiet = 2, kNan = 3, kMinusInf = 4, kInf = 5;  // by kind of x
  constexpr int kTable = kQuiet | kQuiet << 4 | kMinusInf << 8 | kKeep << 12 | kNan << 16 |
                         kInf << 20 | kNan << 24 | kKeep << 28;
  return V{_mm512_fixupimm_ps(y.raw, x.raw, _mm512_set1_epi32(kTable), 0)};
#else
  const V zero = hn::Zero(D()), infinity = all(__builtin_inff());
  y = hn::IfThenElse(hn::Lt(x, infinity), y, x);
  y = hn::IfThenElse(hn::Lt(x, zero), all(__builtin_nanf("")), y);
  return hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
#endif
}

// Not for subnormal numbers: those have more than kSubnormal here.
inline constexpr std::uint32_t kSubnormal = 0xff800000;
HWY_INLINE U subnormal(V x) { return hn::Sub(bits_of(x), all_bits(0x00800000)); }
HWY_INLINE V log_of_normal(V x) {
  const Logarithmic<V> l = logarithmic(x);
  return with_special_logs(assembled_log(l.m - 1.0f, l.k, 0x1p-23f), x);
}

// Of |x|, with the sign of x put back: that keeps −0. Not for |x| > kNear.
HWY_INLINE V sin_near(V x) {
  using C = math::trig_detail::Constants<float>;
  const U sign = all_bits(0x80000000u);
  constexpr float kRounder = math::Layout<float>::kRounder;
  const V a = hn::Abs(x), shifted = fma_of(a, C::kInverse, kRounder), n = shifted - kRounder;
  V r = fma_of(n, -C::kFirst, a);
  r = fma_of(n, -C::kSecond, r);
  r = fma_of(n, -C::kThird, r);
  const U quadrant = bits_of(shifted);
  const M odd = hn::RebindMask(D(), hn::TestBit(quadrant, all_bits(1)));
  const V z = r * r;
  const V tail = polynomial(z, odd, math::trig_detail::cos_terms(), math::trig_detail::sin_terms());
  const V factor = choose(odd, fma_of(z, tail, -0.5f), tail);
  const V y = fma_of(choose(odd, z, r * z), factor, choose(odd, all(1.0f), r));
  const U turned = hn::And(hn::Xor(shift_left<30>(quadrant), bits_of(x)), sign);
  return from_bits(hn::Xor(bits_of(y), turned));
}

}  // namespace planck::HWY_NAMESPACE::vector_math
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
