// Squared errors of elements on candidate grids, for use inside a per-target namespace: what a
// ScaleSearch compares.
//
// A whole search, ns per 64 elements, one core, groups of   32    128   4,096
//   one grid after the other, plain loops                  556    195      92
//   two grids at a time, in vectors                        376    157      89
#if defined(PLANCK_QUANTIZE_GRID_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_QUANTIZE_GRID_SQUARES_INL_H_
#undef PLANCK_QUANTIZE_GRID_SQUARES_INL_H_
#else
#define PLANCK_QUANTIZE_GRID_SQUARES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "planck/ops/quantize/scale_search.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr int kSearchLanes = 16;
constexpr std::int64_t kSearchChunk = 1024;

template <class C>
struct Grid {
  C scale, inverse, lo, hi;
};

HWY_INLINE float nearest(float v) { return (v + 0x1.8p23f) - 0x1.8p23f; }
HWY_INLINE double nearest(double v) { return (v + 0x1.8p52) - 0x1.8p52; }

template <class C>
HWY_INLINE C steps_of(C x, const Grid<C>& g) {
  C v = x * g.inverse;
  v = v < g.lo ? g.lo : v;
  v = v > g.hi ? g.hi : v;
  return nearest(v);
}

template <class C>
HWY_INLINE double total(C* lane) {
  for (int half = kSearchLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  return static_cast<double>(lane[0]);
}

// At most a chunk of x onto the lanes.
template <class C>
HWY_INLINE void add_squares(const C* HWY_RESTRICT x, std::int64_t n, const Grid<C>& g,
                            C* HWY_RESTRICT lane) {
  std::int64_t i = 0;
  for (; i + kSearchLanes <= n; i += kSearchLanes)
    for (int l = 0; l < kSearchLanes; ++l) {
      const C off = x[i + l] - g.scale * steps_of(x[i + l], g);
      lane[l] += off * off;
    }
  for (int l = 0; i < n; ++i, ++l) {
    const C off = x[i] - g.scale * steps_of(x[i], g);
    lane[l] += off * off;
  }
}

// Of every grid. All of them see a chunk before the next one, and their lanes are added up side by
// side: one after the other, a group of 128 would wait for the sums as long as for its elements.
template <class C>
void squared_errors(const C* HWY_RESTRICT x, std::int64_t n, const C* grids, int count,
                    double* HWY_RESTRICT sums) {
  for (int c = 0; c < count; ++c) sums[c] = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSearchChunk) {
    const std::int64_t m = std::min(n - begin, kSearchChunk);
    C lane[kScaleCandidates][kSearchLanes] = {};
    for (int c = 0; c < count; ++c) {
      const C* g = grids + 4 * c;
      add_squares(x + begin, m, Grid<C>{g[0], g[1], g[2], g[3]}, lane[c]);
    }
    for (int c = 0; c < count; ++c) sums[c] += total(lane[c]);
  }
}

#if HWY_MAX_BYTES >= 32  // two vectors at most hold the lanes
// Lanes l and l + 8, then l + 4, l + 2 and l + 1, as total() adds them.
template <class D, class V>
HWY_INLINE float total_of(D, V v) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::GetLane(v);
  } else {
    const hn::Half<D> half;
    return total_of(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// Two grids at a time, so that each load serves both and sums do not wait for one another. An
// operand that is kept where the other is NaN comes second in Min and Max.
HWY_INLINE void squares_of_two(const float* HWY_RESTRICT x, std::int64_t n, const float* a,
                               const float* b, double* sum_a, double* sum_b) {
  const hn::CappedTag<float, kSearchLanes> d;
  constexpr int kVectors = kSearchLanes / static_cast<int>(hn::MaxLanes(d));
  static_assert(kVectors <= 2);
  const auto whole = hn::Set(d, 0x1.8p23f);
  const auto scale_a = hn::Set(d, a[0]), inverse_a = hn::Set(d, a[1]), lo_a = hn::Set(d, a[2]),
             hi_a = hn::Set(d, a[3]), scale_b = hn::Set(d, b[0]), inverse_b = hn::Set(d, b[1]),
             lo_b = hn::Set(d, b[2]), hi_b = hn::Set(d, b[3]);
  const auto add = [&](auto v, auto scale, auto inverse, auto lo, auto hi, auto& sum) HWY_ATTR {
    const auto at = hn::Min(hi, hn::Max(lo, hn::Mul(v, inverse)));
    const auto off = hn::Sub(v, hn::Mul(scale, hn::Sub(hn::Add(at, whole), whole)));
    sum = hn::Add(sum, hn::Mul(off, off));
  };
  auto a0 = hn::Zero(d), a1 = a0, b0 = a0, b1 = a0;
  std::int64_t i = 0;
  for (; i + kSearchLanes <= n; i += kSearchLanes) {
    const auto v = hn::LoadU(d, x + i);
    add(v, scale_a, inverse_a, lo_a, hi_a, a0);
    add(v, scale_b, inverse_b, lo_b, hi_b, b0);
    if constexpr (kVectors == 2) {
      const auto w = hn::LoadU(d, x + i + kSearchLanes / 2);
      add(w, scale_a, inverse_a, lo_a, hi_a, a1);
      add(w, scale_b, inverse_b, lo_b, hi_b, b1);
    }
  }
  if (i == n) {
    *sum_a += static_cast<double>(total_of(d, kVectors == 2 ? hn::Add(a0, a1) : a0));
    *sum_b += static_cast<double>(total_of(d, kVectors == 2 ? hn::Add(b0, b1) : b0));
    return;
  }
  alignas(64) float lane[2][kSearchLanes];
  hn::Store(a0, d, lane[0]);
  hn::Store(b0, d, lane[1]);
  if constexpr (kVectors == 2) {
    hn::Store(a1, d, lane[0] + kSearchLanes / 2);
    hn::Store(b1, d, lane[1] + kSearchLanes / 2);
  }
  add_squares(x + i, n - i, Grid<float>{a[0], a[1], a[2], a[3]}, lane[0]);
  add_squares(x + i, n - i, Grid<float>{b[0], b[1], b[2], b[3]}, lane[1]);
  *sum_a += total(lane[0]);
  *sum_b += total(lane[1]);
}

void squared_errors(const float* HWY_RESTRICT x, std::int64_t n, const float* grids, int count,
                    double* HWY_RESTRICT sums) {
  for (int c = 0; c < count; ++c) sums[c] = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSearchChunk) {
    const std::int64_t m = std::min(n - begin, kSearchChunk);
    for (int c = 0; c + 1 < count; c += 2)
      squares_of_two(x + begin, m, grids + 4 * c, grids + 4 * c + 4, sums + c, sums + c + 1);
    double twice = 0;
    if (count % 2 != 0)
      squares_of_two(x + begin, m, grids + 4 * count - 4, grids + 4 * count - 4, sums + count - 1,
                     &twice);
  }
}
#endif

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLANCK_QUANTIZE_GRID_SQUARES_INL_H_
