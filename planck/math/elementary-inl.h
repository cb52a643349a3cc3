// The elementary functions of f32 over whole vectors, bit for bit those of elementary.h (the tests
// hold them to it): the same formulas with the instructions that a compiler does not find by
// itself. Bounds are one instruction each, AVX-512 scales by a power of two in one, and what one
// special value needs is left out where another step already gives it.
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

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::vector_math {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

HWY_INLINE V all(float value) { return hn::Set(D(), value); }

// On x86 both give the second operand where either is NaN.
HWY_INLINE V at_least(float bound, V x) { return hn::Max(all(bound), x); }
HWY_INLINE V at_most(float bound, V x) { return hn::Min(all(bound), x); }

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
  const hn::RebindToUnsigned<D> u;
  const hn::RebindToSigned<D> i;
  const auto both = hn::BitCast(u, hn::Add(hn::ConvertTo(i, n), hn::Set(i, 254)));
  const auto half = hn::ShiftRight<1>(both);
  const V first = hn::BitCast(D(), hn::ShiftLeft<23>(half));
  const V second = hn::BitCast(D(), hn::ShiftLeft<23>(hn::Sub(both, half)));
  return hn::Mul(hn::Mul(v, first), second);
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

// Of x <= 0 or NaN; NaN of any kind.
HWY_INLINE V exp_below(V x) {
  const Parts p = parts_of(at_least(math::exp_detail::Constants<float>::kLowest, x));
  const Factored e = factored(p.r, p.n);
  return scaled(e.factor, e.n);
}
HWY_INLINE V exp_any_nan(V x) {
  return exp_below(at_most(math::exp_detail::Constants<float>::kHighest, x));
}
HWY_INLINE V exp(V x) { return canonical(exp_any_nan(x)); }

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
  return canonical(hn::CopySignToAbs(hn::IfThenElse(small, near, far), x));
}

HWY_INLINE V sigmoid(V x) {
  const V e = exp_below(hn::Neg(hn::Abs(x)));
  const V one = all(1.0f);
  return canonical(hn::Div(hn::IfThenElse(hn::MaskFromVec(x), e, one), hn::Add(one, e)));
}

HWY_INLINE V silu(V x) {
  const V a = at_most(120.0f, hn::Abs(x));  // x e^-|x| is 0 from here on
  const Parts p = parts_of(hn::Neg(a));
  const Factored e = factored(p.r, p.n);
  const M negative = hn::Lt(x, hn::Zero(D()));
  const V top = hn::IfThenElse(negative, hn::Neg(hn::Mul(a, e.factor)), x);
  const V y = hn::Div(top, hn::Add(all(1.0f), scaled(e.factor, e.n)));
  return canonical(hn::IfThenElse(negative, scaled(y, e.n), y));
}

// As in tanh, one polynomial is enough.
HWY_INLINE V gelu(V x) {
  const V size = hn::Abs(x), a = at_most(16.0f, size);
  const M inside = hn::Lt(size, all(1.0f));
  const V u = hn::Div(all(1.0f), hn::Add(a, all(3.0f)));
  const V half = hn::Mul(all(0.5f), a), h = hn::Mul(half, a), rest = hn::MulSub(half, a, h);
  const Parts p = parts_of(hn::Neg(h));
  const V r = hn::Sub(p.r, rest);
  const V q = hn::MulAdd(hn::Mul(r, r), polynomial(r, math::exp_detail::tail_terms()), r);
  const V t = hn::Mul(hn::Sub(a, all(3.0f)), u);
  const V poly = polynomial(hn::IfThenElse(inside, hn::Add(h, h), t), inside,
                            math::erf_detail::middle_terms(), math::erf_detail::ratio_terms());
  const V v = hn::Mul(hn::Mul(a, u), poly);
  const V tail = scaled(hn::MulAdd(v, q, v), hn::Add(p.n, all(100.0f)));
  const V outer = hn::NegMulAdd(tail, all(0x1p-100f), at_least(0.0f, x));
  const V inner = hn::Mul(x, hn::MulAdd(x, poly, all(0.5f)));
  return canonical(hn::IfThenElse(inside, inner, outer));
}

}  // namespace planck::HWY_NAMESPACE::vector_math
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
