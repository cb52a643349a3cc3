// The extremes of dense rows of f32, f16 or bf16. Include within foreach_target's passes, after
// planck/loops/cpu/steps-inl.h.
#if defined(PLANCK_REDUCE_RANGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_REDUCE_RANGE_INL_H_
#undef PLANCK_REDUCE_RANGE_INL_H_
#else
#define PLANCK_REDUCE_RANGE_INL_H_
#endif

#include "planck/loops/rows/cpu/dense-inl.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::dense {

// Integers in the order of the floats (planck/math/reduction.h); NaN is beyond the infinities.
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> ordered(V x) {
  const hn::RebindToSigned<D> d;
  const auto bits = hn::BitCast(d, x);
  return hn::Xor(bits, hn::And(hn::ShiftRight<31>(bits), hn::Set(d, INT32_MAX)));
}

// The largest and the smallest of n > 0 elements, so ordered.
struct Range {
  std::int32_t least, most;
};
template <class S>
HWY_INLINE Range range(S storage, const void* row, std::int64_t n, std::int64_t ahead) {
  const hn::RebindToSigned<D> d;
  using K = hn::Vec<decltype(d)>;
  K most[2] = {hn::Set(d, INT32_MIN), hn::Set(d, INT32_MIN)};
  K least[2] = {hn::Set(d, INT32_MAX), hn::Set(d, INT32_MAX)};
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const auto* here = static_cast<const typename S::T*>(row) + i;
    for (std::size_t b = 0; b < 2 * kLanes * sizeof(typename S::T); b += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(here) + ahead + b, 0, 2);
    for (int k = 0; k < 2; ++k) {
      const K x = ordered(Whole{i + k * kLanes}.load(storage, row));
      most[k] = hn::Max(most[k], x);
      least[k] = hn::Min(least[k], x);
    }
  }
  for (; i < n; i += kLanes) {
    const int m = static_cast<int>(std::min<std::int64_t>(kLanes, n - i));
    const auto there = hn::FirstN(d, static_cast<std::size_t>(m));
    const K x = ordered(Some{i, m}.load(storage, row));
    most[0] = hn::Max(most[0], hn::IfThenElse(there, x, most[0]));
    least[0] = hn::Min(least[0], hn::IfThenElse(there, x, least[0]));
  }
  return {hn::GetLane(hn::MinOfLanes(d, hn::Min(least[0], least[1]))),
          hn::GetLane(hn::MaxOfLanes(d, hn::Max(most[0], most[1])))};
}

// bf16, 32 (16) at a time: 16-bit integers have their order too.
HWY_INLINE Range range(AsBf16, const void* row, std::int64_t n, std::int64_t ahead) {
  const hn::ScalableTag<std::int16_t> d;
  using K = hn::Vec<decltype(d)>;
  constexpr int kStep = 2 * kLanes;
  const auto* from = static_cast<const std::int16_t*>(row);
  const auto keys = [&](const std::int16_t* p) HWY_ATTR {
    const K bits = hn::LoadU(d, p);
    return hn::Xor(bits, hn::And(hn::ShiftRight<15>(bits), hn::Set(d, INT16_MAX)));
  };
  K most[2] = {hn::Set(d, INT16_MIN), hn::Set(d, INT16_MIN)};
  K least[2] = {hn::Set(d, INT16_MAX), hn::Set(d, INT16_MAX)};
  const auto take = [&](int k, K x) HWY_ATTR {
    most[k] = hn::Max(most[k], x);
    least[k] = hn::Min(least[k], x);
  };
  std::int64_t i = 0;
  for (; i + 2 * kStep <= n; i += 2 * kStep)
    for (int k = 0; k < 2; ++k) {
      __builtin_prefetch(reinterpret_cast<const char*>(from + i + k * kStep) + ahead, 0, 2);
      take(k, keys(from + i + k * kStep));
    }
  if (i + kStep <= n) take(0, keys(from + i)), i += kStep;
  if (i < n) {  // the rest, filled up with its first
    alignas(64) std::int16_t last[kStep];
    std::fill_n(last, kStep, from[i]);
    std::memcpy(last, from + i, static_cast<std::size_t>(n - i) * sizeof(std::int16_t));
    take(0, keys(last));
  }
  // As f32 negative numbers have more ones below.
  const auto wide = [](std::int32_t key) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(key) << 16 |
                                     (key < 0 ? 0xffffu : 0u));
  };
  const hn::RebindToSigned<D> w;
  const hn::Half<decltype(d)> h;
  const auto lower = [&](K v) HWY_ATTR { return hn::PromoteTo(w, hn::LowerHalf(h, v)); };
  const auto upper = [&](K v) HWY_ATTR { return hn::PromoteTo(w, hn::UpperHalf(h, v)); };
  const K low = hn::Min(least[0], least[1]), high = hn::Max(most[0], most[1]);
  return {wide(hn::GetLane(hn::MinOfLanes(w, hn::Min(lower(low), upper(low))))),
          wide(hn::GetLane(hn::MaxOfLanes(w, hn::Max(lower(high), upper(high)))))};
}

// As one key: what Join::largest gives over the keys of the elements. NaN is outside of the keys of
// the infinities.
HWY_INLINE std::int32_t largest_key(const Range& r, std::int32_t flip) {
  constexpr std::int32_t kInfinity = 0x7f800000;
  if (r.most > kInfinity || r.least < ~kInfinity) return reduce_math::kMostKey<std::int32_t>;
  return flip == 0 ? r.most : ~r.least;
}

}  // namespace planck::HWY_NAMESPACE::dense
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
