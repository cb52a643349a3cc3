// exp of f64 over whole vectors, bit for bit that of exp.h (the tests hold it to it) but that a NaN
// may be of any kind. See elementary-inl.h.
#if defined(PLANCK_MATH_WIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_MATH_WIDE_INL_H_
#undef PLANCK_MATH_WIDE_INL_H_
#else
#define PLANCK_MATH_WIDE_INL_H_
#endif

#include "planck/math/elementary-inl.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::vector_math::wide {

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using UD = hn::RebindToUnsigned<D>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

HWY_INLINE V all(double value) { return hn::Set(D(), value); }

template <int kTerms>
HWY_INLINE V polynomial(V x, const math::WideTerms<kTerms>& terms) {
  V sum = all(terms.c[kTerms - 1]);
  for (int k = kTerms - 1; k-- > 0;) sum = hn::MulAdd(sum, x, all(terms.c[k]));
  return sum;
}

// v · 2^n, rounded once; t = n + rounder.
HWY_INLINE V scaled(V v, V n, V t) {
#if HWY_TARGET == HWY_AVX3
  (void)t;
  return V{_mm512_scalef_pd(v.raw, n.raw)};
#else
  (void)n;
  using L = math::Layout<double>;
  const UD u;
  const auto both = hn::Add(hn::BitCast(u, t),
                            hn::Set(u, 2 * std::uint64_t{L::kBias} - math::bits_of(L::kRounder)));
  const auto half = hn::ShiftRight<1>(both);
  const V first = hn::BitCast(D(), hn::ShiftLeft<L::kMantissa>(half));
  const V second = hn::BitCast(D(), hn::ShiftLeft<L::kMantissa>(hn::Sub(both, half)));
  return hn::Mul(hn::Mul(v, first), second);
#endif
}

HWY_INLINE V exp(V x) {
  using C = math::exp_detail::Constants<double>;
  const V rounder = all(math::Layout<double>::kRounder);
  const V bounded = hn::Min(all(C::kHighest), hn::Max(all(C::kLowest), x));
  const V t = hn::MulAdd(bounded, all(C::kInverse), rounder), n = hn::Sub(t, rounder);
  const V high = hn::NegMulAdd(n, all(C::kHigh), bounded), r = hn::NegMulAdd(n, all(C::kLow), high);
  const V q = hn::MulAdd(hn::Mul(r, r), polynomial(r, math::exp_detail::wide_tail_terms()), r);
  return scaled(hn::Add(q, all(1.0)), n, t);
}

}  // namespace planck::HWY_NAMESPACE::vector_math::wide
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
