// What the files of formulas/ are made of, over whole vectors of f32 or f64: float_bits.h's names
// for Highway's vectors, with the instructions that a compiler does not find by itself. Bounds are
// one instruction each, and AVX-512 scales by a power of two in one.
//
// For instruction sets with fused multiply-add (PLANCK_VECTOR_MATH). Include after hwy/highway.h,
// within foreach_target's passes.
#if defined(PLANCK_MATH_FLOAT_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_MATH_FLOAT_BITS_INL_H_
#undef PLANCK_MATH_FLOAT_BITS_INL_H_
#else
#define PLANCK_MATH_FLOAT_BITS_INL_H_
#endif

#undef PLANCK_VECTOR_MATH
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define PLANCK_VECTOR_MATH 1
#else
#define PLANCK_VECTOR_MATH 0
#endif

#include <type_traits>

#include "planck/math/float_bits.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::vector_math {

namespace hn = hwy::HWY_NAMESPACE;

template <class V>
concept Vector = requires {
  typename V::PrivateT;
};
template <class V>
using Element = hn::TFromV<V>;
template <class V>
using Tag = hn::DFromV<V>;

// A vector of x, which may be one already.
template <Vector V>
HWY_INLINE V as(V x) {
  return x;
}
template <Vector V>
HWY_INLINE V as(Element<V> x) {
  return hn::Set(Tag<V>(), x);
}

// Highway has operators between vectors; these are the ones between a vector and a number.
template <Vector V>
HWY_INLINE V operator+(V a, Element<V> b) {
  return a + as<V>(b);
}
template <Vector V>
HWY_INLINE V operator-(V a, Element<V> b) {
  return a - as<V>(b);
}
template <Vector V>
HWY_INLINE V operator-(Element<V> a, V b) {
  return as<V>(a) - b;
}
template <Vector V>
HWY_INLINE V operator*(V a, Element<V> b) {
  return a * as<V>(b);
}
template <Vector V>
HWY_INLINE V operator&(V a, Element<V> b) {
  return a & as<V>(b);
}
template <Vector V>
HWY_INLINE V operator-(V a) {
  return hn::Neg(a);
}

template <Vector V, class B, class C>
HWY_INLINE V fma_of(V a, B b, C c) {
  return hn::MulAdd(a, as<V>(b), as<V>(c));
}
template <Vector V>
HWY_INLINE V fms_of(V a, V b, V c) {
  return hn::MulSub(a, b, c);
}
template <Vector V>
HWY_INLINE V fnma_of(V a, V b, V c) {
  return hn::NegMulAdd(a, b, c);
}
template <Vector V>
HWY_INLINE V abs_of(V x) {
  return hn::Abs(x);
}
template <Vector V>
HWY_INLINE V reciprocal_of(V x) {
  return as<V>(Element<V>(1)) / x;
}
template <Vector V>
HWY_INLINE V with_sign(V magnitude, V sign) {
  return hn::CopySign(magnitude, sign);
}

// On x86 both give the second operand where either is NaN.
template <Vector V>
HWY_INLINE V at_least(V x, Element<V> bound) {
  return hn::Max(as<V>(bound), x);
}
template <Vector V>
HWY_INLINE V at_most(V x, Element<V> bound) {
  return hn::Min(as<V>(bound), x);
}

template <Vector V>
HWY_INLINE auto bits_of(V v) {
  return hn::BitCast(hn::RebindToUnsigned<Tag<V>>(), v);
}
template <Vector U>
HWY_INLINE auto from_bits(U v) {
  return hn::BitCast(hn::RebindToFloat<Tag<U>>(), v);
}
template <int kBy, Vector U>
HWY_INLINE U shift_left(U v) {
  return hn::ShiftLeft<kBy>(v);
}
template <int kBy, Vector U>
HWY_INLINE U shift_right(U v) {
  return hn::ShiftRight<kBy>(v);
}
template <Vector U>
HWY_INLINE auto number_of(U v) {
  return hn::ConvertTo(hn::RebindToFloat<Tag<U>>(), hn::BitCast(hn::RebindToSigned<Tag<U>>(), v));
}

// By the sign bit, which takes no comparison.
template <Vector V>
HWY_INLINE auto is_negative(V x) {
  return hn::MaskFromVec(x);
}
template <Vector V, class B>
HWY_INLINE V choose(hn::Mask<Tag<V>> first, V a, B b) {
  return hn::IfThenElse(first, a, as<V>(b));
}

template <Vector V>
HWY_INLINE V canonical(V v) {
  return hn::IfThenElse(hn::IsNaN(v), as<V>(math::nan_of(Element<V>())), v);
}
template <Vector V>
HWY_INLINE V finished(V v) {
  return v;
}

template <int k = 0, Vector V, int kCount>
HWY_INLINE V polynomial(V x, const math::TermsOf<Element<V>, kCount>& terms) {
  if constexpr (k + 1 == kCount)
    return as<V>(terms.c[k]);
  else
    return fma_of(polynomial<k + 1>(x, terms), x, terms.c[k]);
}

// v · 2^n, rounded once; shifted: n + kRounder.
#if HWY_TARGET == HWY_AVX3
template <Vector V>
HWY_INLINE V scaled_by_number(V v, V n) {
  if constexpr (std::is_same_v<Element<V>, float>)
    return V{_mm512_scalef_ps(v.raw, n.raw)};
  else
    return V{_mm512_scalef_pd(v.raw, n.raw)};
}
template <Vector V>
HWY_INLINE V scaled(V v, V n, V) {
  return scaled_by_number(v, n);
}
template <int kUp, Vector V>
HWY_INLINE V scaled_down(V v, V n, V) {
  return scaled_by_number(v, n);
}
#else
template <Vector V>
HWY_INLINE V scaled(V v, V n, V shifted) {
  using L = math::Layout<Element<V>>;
  using U = typename L::Unsigned;
  constexpr U kBoth = 2 * U{L::kBias};
  const auto both = [&]() HWY_ATTR {
    if constexpr (sizeof(U) == 4)  // n is at hand, and `shifted` would hold one of 16 registers
      return hn::BitCast(hn::RebindToUnsigned<Tag<V>>(),
                         hn::ConvertTo(hn::RebindToSigned<Tag<V>>(), n)) +
             kBoth;
    else
      return bits_of(shifted) + (kBoth - math::bits_of(L::kRounder));
  }();
  const auto half = shift_right<1>(both);
  return v * from_bits(shift_left<L::kMantissa>(half)) *
         from_bits(shift_left<L::kMantissa>(both - half));
}
template <Vector V>
HWY_INLINE V scaled_by_number(V v, V n) {
  const V bounded = at_most(at_least(n, -200.0f), 200.0f);
  return scaled(v, bounded, bounded);
}
template <int kUp, Vector V>
HWY_INLINE V scaled_down(V v, V, V up) {
  constexpr float kDown = 1.0f / static_cast<float>(1u << kUp);
  return v * from_bits(shift_left<math::Layout<float>::kMantissa>(bits_of(up))) * kDown;
}
#endif

// Entry i of a table of 16, by the lower bits of i.
template <Vector U>
HWY_INLINE auto entry_of(const float (&table)[16], U i) {
  using D = hn::RebindToFloat<Tag<U>>;
  using V = hn::Vec<D>;
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_permutexvar_ps(i.raw, hn::LoadU(D(), table).raw)};
#else
  const V first = V{_mm256_permutevar8x32_ps(hn::LoadU(D(), table).raw, i.raw)};
  const V second = V{_mm256_permutevar8x32_ps(hn::LoadU(D(), table + 8).raw, i.raw)};
  return V{_mm256_blendv_ps(first.raw, second.raw, from_bits(hn::ShiftLeft<28>(i)).raw)};
#endif
}

}  // namespace planck::HWY_NAMESPACE::vector_math
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
