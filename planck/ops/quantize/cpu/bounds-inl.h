// Ranges of groups, from which scales and zero points are made: inside a per-target namespace, like
// vectors-inl.h.
#if defined(PLANCK_OPS_QUANTIZE_BOUNDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_OPS_QUANTIZE_BOUNDS_INL_H_
#undef PLANCK_OPS_QUANTIZE_BOUNDS_INL_H_
#else
#define PLANCK_OPS_QUANTIZE_BOUNDS_INL_H_
#endif

#include <algorithm>

#include "planck/ops/quantize/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
namespace {

// ---- along memory ----

// Widens lo and hi by elements [begin, end).
template <class E>
HWY_INLINE void widen(const From<typename E::T>& in, int begin, int end, float* lo, float* hi) {
  V low_a = hn::Zero(d), low_b = low_a, high_a = low_a, high_b = low_a;
  for (int c = begin; c < end; c += kChunk) {
    in.fetch(0, c);
    for (int i = c; i < c + kChunk; i += kUnit) {
      const Two v = E::load(in.at(0, i));
      low_a = hn::Min(v.a, low_a);  // returns the second operand where one is NaN
      low_b = hn::Min(v.b, low_b);
      high_a = hn::Max(v.a, high_a);
      high_b = hn::Max(v.b, high_b);
    }
  }
  *lo = std::min(*lo, hn::GetLane(hn::MinOfLanes(d, hn::Min(low_a, low_b))));
  *hi = std::max(*hi, hn::GetLane(hn::MaxOfLanes(d, hn::Max(high_a, high_b))));
}

// 16-bit floats are signs and magnitudes: the largest signed integer is the largest number, and the
// largest unsigned one is the most negative number, if there is any. Keeps the magnitudes of both.
struct Reach {
  std::uint16_t down, up;
};
template <class DV>
HWY_INLINE std::uint16_t largest(DV dv, hn::Vec<DV> v) {
  if constexpr (hn::MaxLanes(dv) == 8) {
    return hn::GetLane(hn::MaxOfLanes(dv, v));
  } else {
    const hn::Half<DV> half;
    return largest(half, hn::Max(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
HWY_INLINE Reach reach(const From<std::uint16_t>& in, int begin, int end) {
  const hn::RebindToSigned<DH> ds;
  auto down = hn::Set(dh, 0x8000);
  auto up = hn::Zero(ds);
  for (int c = begin; c < end; c += kChunk) {
    in.fetch(0, c);
    const std::uint16_t* at = in.at(0, c);
#pragma GCC unroll 4
    for (int i = 0; i < kChunk; i += kUnit) {
      const auto bits = hn::LoadU(dh, at + i);
      down = hn::Max(down, bits);
      up = hn::Max(up, hn::BitCast(ds, bits));
    }
  }
  return {static_cast<std::uint16_t>(largest(dh, down) & 0x7fff), largest(dh, hn::BitCast(dh, up))};
}

template <class E>
void bounds_of(int count, int run, const Source& x, float* lo, float* hi) {
  const From<typename E::T> in(x);
  if constexpr (!E::kHalf) {
    for (int g = 0; g < count; ++g) widen<E>(in, g * run, (g + 1) * run, lo + g, hi + g);
  } else {
    alignas(64) std::uint16_t down[kLanes] = {}, up[kLanes] = {};
    for (int first = 0; first < count; first += kLanes) {
      const int n = std::min(kLanes, count - first);
      for (int k = 0; k < n; ++k) {
        const Reach r = reach(in, (first + k) * run, (first + k + 1) * run);
        down[k] = r.down;
        up[k] = r.up;
      }
      alignas(64) float low[kLanes], high[kLanes];
      hn::Store(E::in_order(down), d, low);
      hn::Store(E::in_order(up), d, high);
      for (int k = 0; k < n; ++k) {  // NaN stays
        lo[first + k] = -low[k] >= lo[first + k] ? lo[first + k] : -low[k];
        hi[first + k] = high[k] <= hi[first + k] ? hi[first + k] : high[k];
      }
    }
  }
}

void bounds(int count, int run, Source x, float* lo, float* hi) {
  with_element(x.dtype, [&](auto element) { bounds_of<decltype(element)>(count, run, x, lo, hi); });
}

// ---- columns ----

// Eight rows at a time; the bounds so far stay in the first-level cache.
constexpr int kRowsAtOnce = 8;

template <class E>
void bounds_of_each(int rows, int n, const Source& x, float* lo, float* hi) {
  using T = typename E::T;
  const From<T> in(x);
  const auto each_line = [&](auto unit) HWY_ATTR {
    for (int r = 0; r < rows; r += kRowsAtOnce) {
      const int height = std::min(kRowsAtOnce, rows - r);
      for (int i = 0; i < n; i += 64 / static_cast<int>(sizeof(T))) unit(r, height, i);
    }
  };
  const auto fetch = [&](const T* p) HWY_ATTR {
    __builtin_prefetch(reinterpret_cast<const char*>(p) + in.ahead, 0, 2);
  };
  if constexpr (!E::kHalf) {
    each_line([&](int first, int height, int begin) HWY_ATTR {
      for (int i = begin; i < begin + 16; i += kLanes) {
        V low = hn::LoadU(d, lo + i), high = hn::LoadU(d, hi + i);
        const auto include = [&](int r) HWY_ATTR {
          fetch(in.at(r, i));
          const V v = hn::LoadU(d, in.at(r, i));
          low = hn::Min(v, low);  // returns the second operand where one is NaN
          high = hn::Max(v, high);
        };
        if (height == kRowsAtOnce)
#pragma GCC unroll 8
          for (int r = 0; r < kRowsAtOnce; ++r) include(first + r);
        else
          for (int r = 0; r < height; ++r) include(first + r);
        hn::StoreU(low, d, lo + i);
        hn::StoreU(high, d, hi + i);
      }
    });
  } else {
    const hn::RebindToSigned<DH> ds;
    alignas(64) std::uint16_t down[kPortion], up[kPortion];  // as in Reach
    std::fill_n(down, n, std::uint16_t{0x8000});
    std::fill_n(up, n, std::uint16_t{0});
    each_line([&](int first, int height, int begin) HWY_ATTR {
      for (int i = begin; i < begin + 32; i += kUnit) {
        auto below = hn::Load(dh, down + i);
        auto above = hn::BitCast(ds, hn::Load(dh, up + i));
        const auto include = [&](int r) HWY_ATTR {
          fetch(in.at(r, i));
          const auto bits = hn::LoadU(dh, in.at(r, i));
          below = hn::Max(below, bits);
          above = hn::Max(above, hn::BitCast(ds, bits));
        };
        if (height == kRowsAtOnce)
#pragma GCC unroll 8
          for (int r = 0; r < kRowsAtOnce; ++r) include(first + r);
        else
          for (int r = 0; r < height; ++r) include(first + r);
        hn::Store(below, dh, down + i);
        hn::Store(hn::BitCast(dh, above), dh, up + i);
      }
    });
    for (int i = 0; i < n; i += kLanes) {
      const V low = hn::Neg(hn::Abs(E::in_order(down + i))), high = E::in_order(up + i);
      const V old_low = hn::LoadU(d, lo + i), old_high = hn::LoadU(d, hi + i);
      hn::StoreU(hn::IfThenElse(hn::Ge(low, old_low), old_low, low), d, lo + i);  // NaN stays
      hn::StoreU(hn::IfThenElse(hn::Le(high, old_high), old_high, high), d, hi + i);
    }
  }
}

void bounds_each(int rows, int n, Source x, float* lo, float* hi) {
  with_element(x.dtype,
               [&](auto element) { bounds_of_each<decltype(element)>(rows, n, x, lo, hi); });
}

}  // namespace
#endif

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
