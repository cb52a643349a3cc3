// Softmax of dense rows, f32, f16 or bf16, over vectors: the largest element, the exponentials and
// their sum, the results. Include within foreach_target's passes, after
// planck/loops/cpu/steps-inl.h.
//
// The end of a row, a sum across a vector and a division, is computed while the largest element of
// the next row is searched for. f32 results are written by the loop that computes the exponentials
// of the next row, so that memory is read and written all the time; rounding them to bf16 would
// take the multipliers' places, and has a loop of its own.
//
// Two threads, ms:                                    f32 1,024  8,192   bf16 1,024  8,192
//   each row by itself                                     14.9   15.3         12.4   10.6
//   the end of a row computed under the next one           10.5   12.6          9.9    9.6
// Copying takes 12 (f32) and 6 (bf16). On Zen 4, 32 bf16 elements take 32 cycles: the largest
// element 2, exponentials and their sum 23.5, results 6. exp alone is 18 products on pipes that do
// one per cycle, and 46 operations in all would fill all four pipes for 23. Copying takes 22.
#if defined(PLANCK_SOFTMAX_EXPONENTIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SOFTMAX_EXPONENTIALS_INL_H_
#undef PLANCK_SOFTMAX_EXPONENTIALS_INL_H_
#else
#define PLANCK_SOFTMAX_EXPONENTIALS_INL_H_
#endif

#include "planck/loops/rows/cpu/map-inl.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::row_vectors {

// The largest element, NaN where there is one, and a lower bound of all.
struct Peak {
  float largest, least;
};

template <class S>
HWY_INLINE float number_of(std::uint32_t pattern) {
  if constexpr (std::is_same_v<S, dense::AsF32>) return half_detail::f32_from_bits(pattern);
  if constexpr (std::is_same_v<S, dense::AsF16>)
    return static_cast<float>(f16::from_bits(static_cast<std::uint16_t>(pattern)));
  return half_detail::f32_from_bits(pattern << 16);
}

// The least number among lanes.
HWY_INLINE std::uint32_t least_of(hn::Vec<hn::ScalableTag<std::uint32_t>> v) {
  return hn::GetLane(hn::MinOfLanes(hn::ScalableTag<std::uint32_t>(), v));
}
HWY_INLINE std::uint32_t least_of(hn::Vec<hn::ScalableTag<std::uint16_t>> v) {
#if HWY_TARGET == HWY_AVX3
  const __m256i half =
      _mm256_min_epu16(_mm512_castsi512_si256(v.raw), _mm512_extracti64x4_epi64(v.raw, 1));
#else
  const __m256i half = v.raw;
#endif
  const __m128i quarter =
      _mm_min_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_minpos_epu16(quarter))) & 0xffffu;
}

// As integers positive floats rise and negative ones fall: the largest signed number is the largest
// float where one is positive, the largest unsigned one the least where one is negative.
template <class S>
HWY_INLINE Peak peak(const void* row, std::int64_t n) {
  using U = std::conditional_t<std::is_same_v<S, dense::AsF32>, std::uint32_t, std::uint16_t>;
  const hn::ScalableTag<U> d;
  const hn::RebindToSigned<decltype(d)> s;
  constexpr int kStep = static_cast<int>(hn::MaxLanes(d)), kAbreast = 4;
  constexpr U kSign = static_cast<U>(U{1} << (sizeof(U) * 8 - 1));
  constexpr U kInfinity = std::is_same_v<S, dense::AsF32>   ? static_cast<U>(0x7f800000)
                          : std::is_same_v<S, dense::AsF16> ? U{0x7c00}
                                                            : U{0x7f80};
  using N = hn::Vec<decltype(d)>;
  // each(k, v) for vectors of the row in turn, the last filled up with its first element.
  const auto visit = [&](const auto& each) HWY_ATTR {
    const U* from = static_cast<const U*>(row);
    std::int64_t i = 0;
    for (; i + kAbreast * kStep <= n; i += kAbreast * kStep)
      for (int k = 0; k < kAbreast; ++k) each(k, hn::LoadU(d, from + i + k * kStep));
    for (; i + kStep <= n; i += kStep) each(0, hn::LoadU(d, from + i));
    if (i == n) return;
    alignas(64) U last[kStep];
    for (int k = 0; k < kStep; ++k)
      std::memcpy(last + k, from + (i + k < n ? i + k : i), sizeof(U));
    each(0, hn::Load(d, last));
  };
  N risen[kAbreast], fallen[kAbreast];
  for (int k = 0; k < kAbreast; ++k) risen[k] = hn::Set(d, kSign), fallen[k] = hn::Zero(d);
  visit([&](int k, N v) HWY_ATTR {
    risen[k] = hn::BitCast(d, hn::Max(hn::BitCast(s, risen[k]), hn::BitCast(s, v)));
    fallen[k] = hn::Max(fallen[k], v);
  });
  // ~(v ^ kSign) falls as signed numbers rise.
  N most = hn::Xor(risen[0], hn::Set(d, static_cast<U>(~kSign))), down = hn::Not(fallen[0]);
  for (int k = 1; k < kAbreast; ++k) {
    most = hn::Min(most, hn::Xor(risen[k], hn::Set(d, static_cast<U>(~kSign))));
    down = hn::Min(down, hn::Not(fallen[k]));
  }
  U high = static_cast<U>(least_of(most) ^ static_cast<U>(~kSign));
  const U low = static_cast<U>(~least_of(down));
  if (HWY_UNLIKELY(low > (kSign | kInfinity) || (high < kSign && high > kInfinity)))
    return {__builtin_nanf(""), 0.0f};
  if (HWY_UNLIKELY(high >= kSign)) {  // all are negative: the one nearest to 0
    N nearest = hn::Set(d, static_cast<U>(~U{0}));
    visit([&](int, N v) HWY_ATTR { nearest = hn::Min(nearest, v); });
    high = static_cast<U>(least_of(nearest));
  }
  return {number_of<S>(high), low >= kSign ? number_of<S>(low) : 0.0f};
}

// What is done with exponentials beside adding them: one vector of them, or those of pairs.
struct Drop {
  HWY_INLINE void operator()(const auto&, V) const {}
  HWY_INLINE void operator()(const auto&, const dense::Pairs&) const {}
};
// Kept as they come: pairs as a vector of each after the other.
struct Keep {
  float* kept;
  HWY_INLINE void operator()(const auto& at, V v) const { hn::StoreU(v, vm::D(), kept + at.i); }
  HWY_INLINE void operator()(const auto& at, const dense::Pairs& v) const {
    hn::StoreU(v.even, vm::D(), kept + at.i);
    hn::StoreU(v.odd, vm::D(), kept + at.i + vm::kLanes);
  }
};
// Those kept of the row before, scaled, are its results; they make room. Rows of f32 in whole pairs
// of vectors, all of whose results are numbers.
struct Exchange {
  float* kept;
  V by;
  float* to;
  bool stream;
  HWY_INLINE void operator()(const dense::Whole& at, V v) const {
    const V y = hn::Mul(hn::LoadU(vm::D(), kept + at.i), by);
    stream ? hn::Stream(y, vm::D(), to + at.i) : hn::StoreU(y, vm::D(), to + at.i);
    Keep{kept}(at, v);
  }
  HWY_INLINE void operator()(const dense::Some&, V) const {}
};

// The canonical sum of exp(x - from), from the largest, or of e(x - from), from the center. What
// lies `ahead` bytes on is prefetched.
template <class Op, class S, class Take>
float exponential_sum(const typename S::T* x, std::int64_t n, float from, std::int64_t ahead,
                      const Take take) {
  const Shared s{vm::all(from), V()};
  if constexpr (std::is_same_v<S, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::sum(n / 2, [=](const auto& at) HWY_ATTR {
        const auto there = dense::pairs_at(at);
        const dense::Pairs v = there.load(x);
        __builtin_prefetch(reinterpret_cast<const char*>(x + there.i) + ahead, 0, 2);
        const dense::Pairs e{Op::of(v.even, V(), s), Op::of(v.odd, V(), s)};
        take(there, e);
        return hn::Add(e.even, e.odd);
      });
  return dense::sum(n, [=](const auto& at) HWY_ATTR {
    const V e = Op::of(at.load(S(), x), V(), s);
    __builtin_prefetch(reinterpret_cast<const char*>(x + at.i) + ahead, 0, 2);
    take(at, e);
    return e;
  });
}
template <class S, class Take>
HWY_INLINE float exponential_sum(const typename S::T* x, std::int64_t n, const Peak& p,
                                 std::int64_t ahead, const Take& take) {
  return p.largest - p.least <= vm::kExpNear
             ? exponential_sum<ExponentialNear, S>(x, n, p.largest, ahead, take)
             : exponential_sum<Exponential, S>(x, n, p.largest, ahead, take);
}

template <class S>
HWY_INLINE float term_sum(const typename S::T* x, std::int64_t n, const Peak& p,
                          std::int64_t ahead) {
  const float center = math::center_of_terms(p.largest);
  return p.least - center >= -vm::kTermNear
             ? exponential_sum<TermNear, S>(x, n, center, ahead, Drop())
             : exponential_sum<Term, S>(x, n, center, ahead, Drop());
}

// sum(storage, row, peak, ahead) of rows one after the other.
template <class F>
HWY_INLINE void each_sum(Dtype t, const void* rows_of_x, int rows, std::int64_t n,
                         Exponentials<float>* each, const F& sum) {
  dense::with_storage(t, [&](auto storage) {
    using S = decltype(storage);
    const auto* x = static_cast<const typename S::T*>(rows_of_x);
    // The largest element of the next row is found before the sum: nothing waits for either.
    const std::int64_t ahead = 2 * n * static_cast<std::int64_t>(sizeof(typename S::T));
    Peak next = peak<S>(x, n);
    for (int r = 0; r < rows; ++r) {
      const Peak p = next;
      if (r + 1 < rows) next = peak<S>(x + (r + 1) * n, n);
      each[r] = {p.largest, sum(storage, x + r * n, p, ahead)};
    }
  });
}
inline void exponentials(Dtype t, const void* x, int rows, std::int64_t n,
                         Exponentials<float>* each) {
  each_sum(t, x, rows, n, each, [n](auto s, const auto* row, const Peak& p, std::int64_t ahead) {
    return exponential_sum<decltype(s)>(row, n, p, ahead, Drop());
  });
}
inline void terms(Dtype t, const void* x, int rows, std::int64_t n, Exponentials<float>* each) {
  each_sum(t, x, rows, n, each, [n](auto s, const auto* row, const Peak& p, std::int64_t ahead) {
    return term_sum<decltype(s)>(row, n, p, ahead);
  });
}

// e * inverse to a row.
template <dense::Known kKnown, class S>
void scaled(const float* kept, std::int64_t n, float inverse, void* to, bool stream) {
  const V by = vm::all(inverse);
  if constexpr (std::is_same_v<S, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::store_pairs<kKnown>(to, n, stream, [=](const auto& at) HWY_ATTR {
        return dense::Pairs{hn::Mul(hn::LoadU(vm::D(), kept + at.i), by),
                            hn::Mul(hn::LoadU(vm::D(), kept + at.i + vm::kLanes), by)};
      });
  dense::store<kKnown>(S(), to, n, stream, [=](const auto& at) HWY_ATTR {
    return hn::Mul(at.load(dense::AsF32(), kept), by);
  });
}

inline void softmax(const void* rows_of_x, std::int64_t rows, std::int64_t n, const Sink& to) {
  dense::with_storage(to.dtype, [&](auto storage) {
    using S = decltype(storage);
    using T = typename S::T;
    constexpr bool kExchange = std::is_same_v<S, dense::AsF32>;
    constexpr std::int64_t kFar = 1 << 14;  // bytes of a row that lasts while the next one comes
    const T* x = static_cast<const T*>(rows_of_x);
    T* y = static_cast<T*>(to.data);
    const bool whole = kExchange && n % dense::kPairLanes == 0 &&
                       (!to.stream || reinterpret_cast<std::uintptr_t>(y) % 64 == 0);
    const std::int64_t bytes = n * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t ahead = bytes < kFar ? 2 * bytes : bytes;
    alignas(64) float kept[kKeptRow + kRowRoom];
    Peak next = peak<S>(x, n);
    float inverse = 0;
    bool waits = false;  // whether what is kept is still to be written
    for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
      const Peak p = next;
      const float sum = [&] {
        if constexpr (kExchange)
          if (waits)
            return exponential_sum<S>(x, n, p, ahead,
                                      Exchange{kept, vm::all(inverse), y - n, to.stream});
        return exponential_sum<S>(x, n, p, ahead, Keep{kept});
      }();
      if (r + 1 < rows) next = peak<S>(x + n, n);
      inverse = 1.0f / sum;
      // No result is NaN where the largest element is finite.
      const bool numbers = p.largest - p.largest == 0.0f;
      waits = whole && numbers && r + 1 < rows;
      if (waits) continue;
      if (numbers)
        scaled<dense::Known::numbers, S>(kept, n, inverse, y, to.stream);
      else
        scaled<dense::Known::nothing, S>(kept, n, inverse, y, to.stream);
    }
  });
}

}  // namespace planck::HWY_NAMESPACE::row_vectors
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
