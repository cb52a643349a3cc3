// bf16 over whole vectors: to f32 and, rounded to nearest even as planck/core/half.h does, back. A
// NaN that is narrowed has to be the canonical one.
//
// In order, a vector of 16-bit words is a vector of f32 of twice its size. As pairs nothing moves
// between lanes: of a vector of memory, the elements at even places are the lower halves of its
// 32-bit words, those at odd places the upper ones.
//
// Include after hwy/highway.h, within foreach_target's passes.
#if defined(PLANCK_MATH_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_MATH_BF16_INL_H_
#undef PLANCK_MATH_BF16_INL_H_
#else
#define PLANCK_MATH_BF16_INL_H_
#endif

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::bf16_vectors {

namespace hn = hwy::HWY_NAMESPACE;

template <class V>
using WordsOf = hn::RebindToUnsigned<hn::DFromV<V>>;

// The result is in the upper half of each word; the lower one is left over.
template <class V>
HWY_INLINE hn::Vec<WordsOf<V>> rounded(V v) {
  const WordsOf<V> d;
  const auto wide = hn::BitCast(d, v), upper = hn::ShiftRight<16>(wide);
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(V) == 64) {  // wide + 0x7fff + odd = wide - (-0x8000 | even)
    const __m512i down = _mm512_ternarylogic_epi32(upper.raw, _mm512_set1_epi32(1),
                                                   _mm512_set1_epi32(-0x8000), 0xae);  // ~a & b | c
    return hn::Sub(wide, hn::Vec<WordsOf<V>>{down});
  }
#endif
  const auto odd = hn::And(upper, hn::Set(d, 1));
  return hn::Add(hn::Add(wide, hn::Set(d, 0x7fff)), odd);
}

// In order.
template <class H>
HWY_INLINE auto widened(H words) {
  const hn::Rebind<std::uint32_t, hn::DFromV<H>> d;
  return hn::BitCast(hn::RebindToFloat<decltype(d)>(), hn::ShiftLeft<16>(hn::PromoteTo(d, words)));
}
template <class V>
HWY_INLINE auto narrowed(V v) {
  const hn::Rebind<std::uint16_t, WordsOf<V>> d;
  return hn::TruncateTo(d, hn::ShiftRight<16>(rounded(v)));
}

// As pairs.
template <class W>
HWY_INLINE auto even(W words) {
  return hn::BitCast(hn::RebindToFloat<hn::DFromV<W>>(), hn::ShiftLeft<16>(words));
}
template <class W>
HWY_INLINE auto odd(W words) {
  const hn::DFromV<W> d;
  return hn::BitCast(hn::RebindToFloat<hn::DFromV<W>>(), hn::And(words, hn::Set(d, 0xffff0000u)));
}
template <class V>
HWY_INLINE hn::Vec<WordsOf<V>> narrowed_pairs(V even_ones, V odd_ones) {
  const WordsOf<V> d;
  const hn::Repartition<std::uint16_t, WordsOf<V>> halves;
  return hn::BitCast(d, hn::OddEven(hn::BitCast(halves, rounded(odd_ones)),
                                    hn::BitCast(halves, hn::ShiftRight<16>(rounded(even_ones)))));
}

}  // namespace planck::HWY_NAMESPACE::bf16_vectors
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
