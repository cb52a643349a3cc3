// Dense rows of f32, f16 or bf16 as vectors of f32: loads, stores and the canonical sum without an
// array between the steps. Include after planck/loops/cpu/steps-inl.h, within foreach_target's
// passes.
#if defined(PLANCK_REDUCE_DENSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_REDUCE_DENSE_INL_H_
#undef PLANCK_REDUCE_DENSE_INL_H_
#else
#define PLANCK_REDUCE_DENSE_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "planck/math/bf16-inl.h"
#include "planck/math/elementary-inl.h"
#include "planck/math/reduction.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::dense {

namespace vm = vector_math;
using vm::D;
using vm::kLanes;
using vm::V;

// What an element is stored as.
struct AsF32 {
  using T = float;
  static HWY_INLINE V load(const T* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(v, D(), p); }
  static HWY_INLINE void stream(V v, T* p) { hn::Stream(v, D(), p); }
};
struct AsBf16 {
  using T = std::uint16_t;
  using H = hn::Rebind<std::uint16_t, D>;
  static HWY_INLINE V load(const T* p) { return bf16_vectors::widened(hn::LoadU(H(), p)); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(bf16_vectors::narrowed(v), H(), p); }
  static HWY_INLINE void stream(V v, T* p) { hn::Stream(bf16_vectors::narrowed(v), H(), p); }
};
struct AsF16 {
  using T = std::uint16_t;
  using F = hn::Rebind<hwy::float16_t, D>;
  using H = hn::Rebind<std::uint16_t, D>;
  static HWY_INLINE V load(const T* p) {
    return hn::PromoteTo(D(), hn::LoadU(F(), reinterpret_cast<const hwy::float16_t*>(p)));
  }
  static HWY_INLINE hn::Vec<H> narrowed(V v) { return hn::BitCast(H(), hn::DemoteTo(F(), v)); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(narrowed(v), H(), p); }
  static HWY_INLINE void stream(V v, T* p) { hn::Stream(narrowed(v), H(), p); }
};

template <class F>
HWY_INLINE auto with_storage(Dtype t, F&& f) {
  return t == Dtype::f32 ? f(AsF32()) : t == Dtype::f16 ? f(AsF16()) : f(AsBf16());
}

// Where a vector of a row is: from element i on, all of it (Whole), or m elements of it (Some): the
// others read as 0 and are not written.
struct Whole {
  std::int64_t i;
  template <class T>
  HWY_INLINE void put(hn::Vec<hn::ScalableTag<T>> v, T* row) const {
    hn::StoreU(v, hn::ScalableTag<T>(), row + i);
  }
  template <class S>
  HWY_INLINE V load(S, const void* row) const {
    return S::load(static_cast<const typename S::T*>(row) + i);
  }
};
struct Some {
  std::int64_t i;
  int m;
  template <class T>
  HWY_INLINE void put(hn::Vec<hn::ScalableTag<T>> v, T* row) const {
    alignas(64) T all[kLanes];
    hn::Store(v, hn::ScalableTag<T>(), all);
    std::memcpy(row + i, all, static_cast<std::size_t>(m) * sizeof(T));
  }
  template <class S>
  HWY_INLINE V load(S, const void* row) const {
    alignas(64) typename S::T there[kLanes] = {};
    std::memcpy(there, static_cast<const typename S::T*>(row) + i,
                static_cast<std::size_t>(m) * sizeof(typename S::T));
    return S::load(there);
  }
};

// Several vectors of f32, or of another type.
template <int kCount, class T = V>
struct Vectors {
  T v[kCount];
};

// The vectors of kRows rows, joined in pairs; row(r) gives those of one row.
template <int kRows, class Row, class F>
HWY_INLINE auto joined(int first, const Row& row, const F& join) {
  if constexpr (kRows == 1) {
    return row(first);
  } else {
    auto left = joined<kRows / 2>(first, row, join);
    const auto right = joined<kRows / 2>(first + kRows / 2, row, join);
    for (std::size_t k = 0; k < std::size(left.v); ++k) left.v[k] = join(left.v[k], right.v[k]);
    return left;
  }
}
template <int kRows, class Row>
HWY_INLINE auto sum_of_rows(const Row& row) {
  return joined<kRows>(0, row, [](V a, V b) HWY_ATTR { return hn::Add(a, b); });
}

// kWide places side by side.
template <class At, int kWide>
struct Abreast {
  static constexpr int kCount = kWide;
  At first;
  HWY_INLINE At operator[](int k) const {
    At at = first;
    at.i += k * kLanes;
    return at;
  }
};

// Calls f(places) for n columns that several rows share: kWide vectors abreast while there are, so
// that neighbouring lines are read and written together (f32 cumsum down the rows: 0.80 to 1.0).
template <int kWide = 4, class F>
HWY_INLINE void for_columns(int n, const F& f) {
  int j = 0;
  for (; j + kWide * kLanes <= n; j += kWide * kLanes) f(Abreast<Whole, kWide>{{j}});
  for (; j + kLanes <= n; j += kLanes) f(Abreast<Whole, 1>{{j}});
  if (j < n) f(Abreast<Some, 1>{{j, n - j}});
}

// Sums of neighbours, those of a before those of b.
HWY_INLINE V pair_sums(V a, V b) {
  return hn::Add(hn::ConcatEven(D(), b, a), hn::ConcatOdd(D(), b, a));
}

// The same within each 128-bit part, and of neighbouring parts: shuffles that are cheaper than
// those across the whole vector.
HWY_INLINE V pair_sums_in_parts(V a, V b) {
#if HWY_TARGET == HWY_AVX3
  return V{
      _mm512_add_ps(_mm512_shuffle_ps(a.raw, b.raw, 0x88), _mm512_shuffle_ps(a.raw, b.raw, 0xdd))};
#else
  return V{
      _mm256_add_ps(_mm256_shuffle_ps(a.raw, b.raw, 0x88), _mm256_shuffle_ps(a.raw, b.raw, 0xdd))};
#endif
}
HWY_INLINE V part_sums(V a, V b) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_add_ps(_mm512_shuffle_f32x4(a.raw, b.raw, 0x88),
                         _mm512_shuffle_f32x4(a.raw, b.raw, 0xdd))};
#else
  return V{_mm256_add_ps(_mm256_permute2f128_ps(a.raw, b.raw, 0x20),
                         _mm256_permute2f128_ps(a.raw, b.raw, 0x31))};
#endif
}

// The sums of four vectors: each part of the result holds those of that part of all four.
HWY_INLINE V sums_in_parts(V a, V b, V c, V d) {
  return pair_sums_in_parts(pair_sums_in_parts(a, b), pair_sums_in_parts(c, d));
}
// From there, for kLanes vectors, to one number for each, in their order.
HWY_INLINE V sums_of_parts(const V (&fours)[kLanes / 4]) {
  if constexpr (kLanes == 8)
    return part_sums(fours[0], fours[1]);
  else
    return part_sums(part_sums(fours[0], fours[1]), part_sums(fours[2], fours[3]));
}

// The sums of kLanes vectors, one number for each, in their order; value(k) is the k-th of each of
// kSums rows of vectors. Longer functions are not repeated more often than four times.
template <int kSums, class F>
HWY_INLINE Vectors<kSums> vector_sums(const F& value) {
  V fours[kSums][kLanes / 4];
  for (int k = 0; k < kLanes; k += 4) {
    const Vectors<kSums> a = value(k), b = value(k + 1), c = value(k + 2), d = value(k + 3);
    for (int s = 0; s < kSums; ++s) fours[s][k / 4] = sums_in_parts(a.v[s], b.v[s], c.v[s], d.v[s]);
  }
  Vectors<kSums> all;
  for (int s = 0; s < kSums; ++s) all.v[s] = sums_of_parts(fours[s]);
  return all;
}

// Sums of vectors, kLanes of them and more, to one number: what is missing is -0.
HWY_INLINE float tree_of_lanes(float* sums, int count) {
  const auto at = [&](int k) HWY_ATTR {
    return k * kLanes < count ? hn::Load(D(), sums + k * kLanes) : vm::all(-0.0f);
  };
  for (int next = 0; count > 4 * kLanes; count = next, next = 0)
    for (int k = 0; k * kLanes < count; k += kLanes, next += kLanes)
      hn::Store(vector_sums<1>([&](int v) HWY_ATTR { return Vectors<1>{{at(k + v)}}; }).v[0], D(),
                sums + next);
  V all = pair_sums_in_parts(pair_sums_in_parts(at(0), at(1)), pair_sums_in_parts(at(2), at(3)));
  for (int parts = kLanes / 4; parts > 1; parts /= 2) all = part_sums(all, all);
  all = pair_sums_in_parts(all, all);
  return hn::GetLane(pair_sums_in_parts(all, all));
}

// kSums canonical sums of n > 0 values each; value(at) gives one vector for each sum. What is
// missing counts as -0, which changes no sum: the tree over whole vectors is the tree over the
// values.
template <int kSums, class F>
HWY_INLINE void sums_of(std::int64_t n, const F& value, float (&out)[kSums]) {
  constexpr std::int64_t kGroup = kLanes * kLanes, kPart = 64 * kGroup;
  reduce_math::JoinCounter<reduce_math::Add, float> all[kSums];
  alignas(64) float sums[kSums][kPart / kLanes];
  for (std::int64_t begin = 0; begin < n; begin += kPart) {
    const std::int64_t end = std::min(n, begin + kPart);
    int count = 0;
    std::int64_t i = begin;
    const auto keep = [&](const Vectors<kSums>& group) HWY_ATTR {
      for (int s = 0; s < kSums; ++s) hn::Store(group.v[s], D(), sums[s] + count);
      count += kLanes;
    };
    for (; i + kGroup <= end; i += kGroup)
      keep(vector_sums<kSums>([&](int k) HWY_ATTR { return value(Whole{i + k * kLanes}); }));
    if (i < end) {
      Vectors<kSums> last[kLanes];
      for (int k = 0; k < kLanes; ++k, i += kLanes) {
        const std::int64_t m = end - i;
        for (V& v : last[k].v) v = vm::all(-0.0f);
        if (m >= kLanes) {
          last[k] = value(Whole{i});
        } else if (m > 0) {
          const Vectors<kSums> some = value(Some{i, static_cast<int>(m)});
          for (int s = 0; s < kSums; ++s)
            last[k].v[s] = hn::IfThenElse(hn::FirstN(D(), static_cast<std::size_t>(m)), some.v[s],
                                          last[k].v[s]);
        }
      }
      keep(vector_sums<kSums>([&](int k) HWY_ATTR { return last[k]; }));
    }
    for (int s = 0; s < kSums; ++s) out[s] = tree_of_lanes(sums[s], count);
    if (n <= kPart) return;
    for (int s = 0; s < kSums; ++s) all[s].add(out[s]);
  }
  for (int s = 0; s < kSums; ++s) out[s] = all[s].result();
}
template <class F>
HWY_INLINE float sum(std::int64_t n, const F& value) {
  float out[1];
  sums_of<1>(
      n, [&](const auto& at) HWY_ATTR { return Vectors<1>{{value(at)}}; }, out);
  return out[0];
}

// Whether there is a NaN in either.
HWY_INLINE bool any_nan(V a, V b) {
#if HWY_TARGET == HWY_AVX3
  return _mm512_cmp_ps_mask(a.raw, b.raw, _CMP_UNORD_Q) != 0;
#else
  return _mm256_movemask_ps(_mm256_cmp_ps(a.raw, b.raw, _CMP_UNORD_Q)) != 0;
#endif
}

// What is known of values that are stored: every NaN is made the canonical one.
enum class Known { nothing, numbers };

// value(at) to the n elements of a row; past the caches where `stream`, from the first whole vector
// of memory on.
template <Known kKnown, class S, class F>
HWY_INLINE void store(S, void* row, std::int64_t n, bool stream, const F& value) {
  using T = typename S::T;
  T* out = static_cast<T*>(row);
  const auto some = [&](std::int64_t i, int m) HWY_ATTR {
    alignas(64) T there[kLanes];
    S::store(vm::canonical(value(Some{i, m})), there);
    std::memcpy(out + i, there, static_cast<std::size_t>(m) * sizeof(T));
  };
  std::int64_t i = 0;
  const auto all = [&](auto put) HWY_ATTR {
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      V a = value(Whole{i}), b = value(Whole{i + kLanes});
      if constexpr (kKnown == Known::nothing)
        if (HWY_UNLIKELY(any_nan(a, b))) a = vm::canonical(a), b = vm::canonical(b);
      put(a, out + i), put(b, out + i + kLanes);
    }
    if (i + kLanes <= n) put(vm::canonical(value(Whole{i})), out + i), i += kLanes;
  };
  if (stream) {
    constexpr std::size_t kBytes = kLanes * sizeof(T);
    const std::size_t past = reinterpret_cast<std::uintptr_t>(out) % kBytes;
    const auto lead = static_cast<std::int64_t>((kBytes - past) % kBytes / sizeof(T));
    if (lead > 0 && lead <= n) some(0, static_cast<int>(lead)), i = lead;
    if (lead <= n) all([](V v, T* to) HWY_ATTR { S::stream(v, to); });
  }
  all([](V v, T* to) HWY_ATTR { S::store(v, to); });
  if (i < n) some(i, static_cast<int>(n - i));
}

}  // namespace planck::HWY_NAMESPACE::dense
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
