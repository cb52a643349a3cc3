// The elementary functions of f32 over whole vectors, bit for bit those of elementary.h (the tests
// hold them to it) but that a NaN may be of any kind: the same formulas with the instructions that
// a compiler does not find by itself. Bounds are one instruction each, AVX-512 scales by a power of
// two in one, two polynomials of which one is wanted are one with chosen terms, and what one
// special value needs is left out where another step already gives it, or is done for all vectors
// of a loop's step once one of them has it.
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

#undef PLANCK_VECTOR_MATH
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define PLANCK_VECTOR_MATH 1
#else
#define PLANCK_VECTOR_MATH 0
#endif

#include "planck/math/elementary.h"
#include "planck/math/exp_terms.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::vector_math {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
using UD = hn::RebindToUnsigned<D>;
using U = hn::Vec<UD>;
using ID = hn::RebindToSigned<D>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

HWY_INLINE V all(float value) { return hn::Set(D(), value); }

// On x86 both give the second operand where either is NaN.
HWY_INLINE V at_least(float bound, V x) { return hn::Max(all(bound), x); }
HWY_INLINE V at_most(float bound, V x) { return hn::Min(all(bound), x); }

HWY_INLINE U bits_of(V v) { return hn::BitCast(UD(), v); }
HWY_INLINE V from_bits(U v) { return hn::BitCast(D(), v); }
HWY_INLINE U all_bits(std::uint32_t value) { return hn::Set(UD(), value); }

HWY_INLINE V canonical(V v) { return hn::IfThenElse(hn::IsNaN(v), all(__builtin_nanf("")), v); }

// c[0] + c[1] x + c[2] x² + …
template <int kTerms>
HWY_INLINE V polynomial(V x, const math::Terms<kTerms>& terms) {
  V sum = all(terms.c[kTerms - 1]);
  for (int k = kTerms - 1; k-- > 0;) sum = hn::MulAdd(sum, x, all(terms.c[k]));
  return sum;
}

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

// v · 2^n, rounded once; n is an integer.
HWY_INLINE V scaled(V v, V n) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_scalef_ps(v.raw, n.raw)};
#else
  const U both = hn::BitCast(UD(), hn::Add(hn::ConvertTo(ID(), n), hn::Set(ID(), 254)));
  const U half = hn::ShiftRight<1>(both);
  return hn::Mul(hn::Mul(v, from_bits(hn::ShiftLeft<23>(half))),
                 from_bits(hn::ShiftLeft<23>(hn::Sub(both, half))));
#endif
}

// e^(x + rest) = factor · 2^n
struct Factored {
  V factor, n;
};
HWY_INLINE Factored factored(V r, V n) {
  const V tail = polynomial(r, math::exp_detail::tail_terms());
  return {hn::Add(hn::MulAdd(hn::Mul(r, r), tail, r), all(1.0f)), n};
}
struct Parts {
  V r, n;
};
HWY_INLINE Parts parts_of(V x) {
  using C = math::exp_detail::Constants<float>;
  const V rounder = all(math::Layout<float>::kRounder);
  const V n = hn::Sub(hn::MulAdd(x, all(C::kInverse), rounder), rounder);
  const V r = hn::NegMulAdd(n, all(C::kHigh), x);
  return {hn::NegMulAdd(n, all(C::kLow), r), n};
}

// Of x <= 0 or NaN.
HWY_INLINE V exp_below(V x) {
  const Parts p = parts_of(at_least(math::exp_detail::Constants<float>::kLowest, x));
  const Factored e = factored(p.r, p.n);
  return scaled(e.factor, e.n);
}
// Of -kExpNear <= x <= 0, where results are normal numbers: neither a bound nor a product is
// needed, and the exponent is added as an integer.
inline constexpr float kExpNear = 87.0f;
HWY_INLINE V exp_near(V x) {
  using C = math::exp_detail::Constants<float>;
  const V rounder = all(math::Layout<float>::kRounder);
  const V t = hn::MulAdd(x, all(C::kInverse), rounder), n = hn::Sub(t, rounder);
  const V r = hn::NegMulAdd(n, all(C::kLow), hn::NegMulAdd(n, all(C::kHigh), x));
  return from_bits(hn::Add(bits_of(factored(r, n).factor), hn::ShiftLeft<23>(bits_of(t))));
}
// exp_terms.h's e(z): of z <= 70 or NaN, and of −kTermNear <= z <= 70.
struct TermParts {
  V rounded, n, factor;
};
HWY_INLINE TermParts term_parts(V z) {
  const V one = all(1.0f), rounder = all(math::Layout<float>::kRounder);
  const V t = hn::MulAdd(z, all(math::exp_detail::Constants<float>::kInverse), rounder);
  const V n = hn::Sub(t, rounder), r = hn::NegMulAdd(n, all(math::kTermUnit), z);
  const V tail = polynomial(r, math::exp_detail::tail_terms());
  return {t, n, hn::MulAdd(hn::MulAdd(tail, r, one), r, one)};
}
HWY_INLINE V exp_term(V z) {
  const TermParts p = term_parts(at_least(math::exp_detail::Constants<float>::kLowest, z));
  return scaled(p.factor, p.n);
}
inline constexpr float kTermNear = 86.0f;
HWY_INLINE V exp_term_near(V z) {
  const TermParts p = term_parts(z);
  return from_bits(hn::Add(bits_of(p.factor), hn::ShiftLeft<23>(bits_of(p.rounded))));
}
HWY_INLINE V exp_any_nan(V x) {
  return exp_below(at_most(math::exp_detail::Constants<float>::kHighest, x));
}
// Near zero and away from it a polynomial of the same kind is wanted, b + (b w) P(w): b and w are x
// and x² or twice r, so that one is enough for both.
HWY_INLINE V tanh(V x) {
  const V a = hn::Abs(x), z = hn::Mul(a, a), bounded = at_most(22.0f, a);
  const M small = hn::Lt(a, all(0.625f));
  const Parts p = parts_of(hn::Add(bounded, bounded));
  const V b = hn::IfThenElse(small, a, p.r), w = hn::IfThenElse(small, z, p.r);
  const V poly =
      polynomial(w, small, math::sigmoid_detail::tanh_terms(), math::exp_detail::tail_terms());
  const V near = hn::MulAdd(hn::Mul(b, w), poly, b);
  const V e = scaled(hn::Add(near, all(1.0f)), p.n);
  const V far = hn::Sub(all(1.0f), hn::Div(all(2.0f), hn::Add(e, all(1.0f))));
  return hn::CopySignToAbs(hn::IfThenElse(small, near, far), x);
}

HWY_INLINE V sigmoid(V x) {
  const V e = exp_below(hn::Neg(hn::Abs(x)));
  const V one = all(1.0f);
  return hn::Div(hn::IfThenElse(hn::MaskFromVec(x), e, one), hn::Add(one, e));
}

HWY_INLINE V silu(V x) {
  const V a = at_most(120.0f, hn::Abs(x));  // x e^-|x| is 0 from here on
  const Parts p = parts_of(hn::Neg(a));
  const Factored e = factored(p.r, p.n);
  const M negative = hn::Lt(x, hn::Zero(D()));
  const V top = hn::IfThenElse(negative, hn::Neg(hn::Mul(a, e.factor)), x);
  const V y = hn::Div(top, hn::Add(all(1.0f), scaled(e.factor, e.n)));
  return hn::IfThenElse(negative, scaled(y, e.n), y);
}

// power · 2^n for an exponent of normal numbers; n is in the low bits of `up`.
HWY_INLINE V with_exponent(V power, V up) {
  return from_bits(hn::Add(bits_of(power), hn::ShiftLeft<23>(bits_of(up))));
}
HWY_INLINE V gelu(V x) {
  namespace scalar = math::erf_detail;
  const V a = at_most(scalar::kGeluFar, hn::Abs(x));
  const V t = hn::Mul(a, hn::Div(all(1.0f), hn::Add(a, all(scalar::kRatioShift))));
  const V v = hn::Mul(t, polynomial(t, scalar::ratio_terms()));
  const V square = hn::Mul(a, a), rest = hn::MulSub(a, a, square);
  const V unit = all(scalar::kHalfLog2E), shift = all(math::Layout<float>::kRounder + 100);
  const V up = hn::NegMulAdd(square, unit, shift);
  const V f = hn::NegMulAdd(rest, unit, hn::NegMulAdd(square, unit, hn::Sub(shift, up)));
  const V power = with_exponent(polynomial(f, math::exp_detail::exp2_terms()), up);
  return hn::NegMulAdd(hn::Mul(v, power), all(0x1p-100f), at_least(-0.0f, x));
}

// |x| = 2^k m, sqrt(1/2) <= m < sqrt(2), for a normal x > 0; k is 2^23 times too large.
struct Logarithmic {
  V m, k;
};
HWY_INLINE Logarithmic logarithmic(V x) {
  const U bits = bits_of(x);
  const U k = hn::And(hn::Sub(bits, all_bits(math::log_detail::Constants<float>::kRootHalf)),
                      all_bits(0xff800000u));
  return {from_bits(hn::Sub(bits, k)), hn::ConvertTo(D(), hn::BitCast(ID(), k))};
}
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
  using C = math::log_detail::Constants<float>;
  const Logarithmic l = logarithmic(x);
  const V f = hn::Sub(l.m, all(1.0f)), p = polynomial(f, math::log_detail::terms());
  const V y = hn::MulAdd(hn::Mul(f, f), p, hn::MulAdd(l.k, all(C::kLow * 0x1p-23f), f));
  return with_special_logs(hn::MulAdd(l.k, all(C::kHigh * 0x1p-23f), y), x);
}

// Of |x|, with the sign of x put back: that keeps −0. Not for |x| > kNear.
HWY_INLINE V sin_near(V x) {
  using C = math::trig_detail::Constants<float>;
  const U sign = all_bits(0x80000000u);
  const V a = hn::Abs(x), rounder = all(math::Layout<float>::kRounder);
  const V t = hn::MulAdd(a, all(C::kInverse), rounder), n = hn::Sub(t, rounder);
  V r = hn::NegMulAdd(n, all(C::kFirst), a);
  r = hn::NegMulAdd(n, all(C::kSecond), r);
  r = hn::NegMulAdd(n, all(C::kThird), r);
  const M odd = hn::RebindMask(D(), hn::TestBit(bits_of(t), all_bits(1)));
  const V z = hn::Mul(r, r);
  const V tail = polynomial(z, odd, math::trig_detail::cos_terms(), math::trig_detail::sin_terms());
  const V factor = hn::IfThenElse(odd, hn::MulAdd(z, tail, all(-0.5f)), tail);
  const V y =
      hn::MulAdd(hn::IfThenElse(odd, z, hn::Mul(r, z)), factor, hn::IfThenElse(odd, all(1.0f), r));
  const U turned = hn::And(hn::Xor(hn::ShiftLeft<30>(bits_of(t)), bits_of(x)), sign);
  return from_bits(hn::Xor(bits_of(y), turned));
}

}  // namespace planck::HWY_NAMESPACE::vector_math
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
