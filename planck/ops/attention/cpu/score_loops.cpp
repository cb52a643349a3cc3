// Plain loops that the compiler vectorizes for each instruction set.
#include "planck/ops/attention/cpu/score_loops.h"

#include "planck/loops/cpu/targets.h"
#include "planck/ops/attention/attention.math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/attention/cpu/score_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace element = attention_math;
using attention::kMostLanes;
using attention::ScoreBlock;
using attention::ScoreLoops;

// Scores of one row, in place.
template <class C, int kW>
HWY_INLINE void scores_of_row(const ScoreBlock<C>& b, int r, C* HWY_RESTRICT t) {
  if (b.mask != nullptr) {
    const C* HWY_RESTRICT mask = b.mask + r * kW;
    for (int w = 0; w < kW; ++w) t[w] = element::score(t[w], b.scale, mask[w]);
  } else {
    for (int w = 0; w < kW; ++w) t[w] = element::score(t[w], b.scale);
  }
  if (b.first != nullptr) {
    const std::int32_t *HWY_RESTRICT first = b.first, *HWY_RESTRICT end = b.end;
    const C hidden = -math::infinity_of(C(0));
    for (int w = 0; w < kW; ++w) t[w] = ((first[w] <= r) & (r < end[w])) ? t[w] : hidden;
  }
}

template <class C, int kW>
void soften_as(const ScoreBlock<C>& b, C* HWY_RESTRICT largest, C* HWY_RESTRICT sums,
               C* HWY_RESTRICT factor) {
  alignas(64) C m[kW];
  for (int w = 0; w < kW; ++w) m[w] = largest[w];
  for (int r = 0; r < b.rows; ++r) {
    C* HWY_RESTRICT t = b.values + r * kW;
    scores_of_row<C, kW>(b, r, t);
    for (int w = 0; w < kW; ++w) m[w] = element::larger(m[w], t[w]);
  }
  for (int w = 0; w < kW; ++w) {
    factor[w] = element::power(largest[w] - m[w]);
    largest[w] = m[w];
  }
  for (int c = 0; c < element::kPartialSums; ++c)
    for (int w = 0; w < kW; ++w) sums[c * kW + w] *= factor[w];
  for (int r = 0; r < b.rows; ++r) {
    C* HWY_RESTRICT t = b.values + r * kW;
    C* HWY_RESTRICT sum = sums + r % element::kPartialSums * kW;
    for (int w = 0; w < kW; ++w) {
      const C p = element::power(t[w] - m[w]);
      t[w] = p;
      sum[w] += p;
    }
  }
}

template <class C, int kW>
void rescale_as(C* HWY_RESTRICT values, std::int64_t rows, const C* HWY_RESTRICT factor) {
  for (std::int64_t r = 0; r < rows; ++r, values += kW)
    for (int w = 0; w < kW; ++w) values[w] *= factor[w];
}

template <class C, int kW, bool kOfLanes>
void slopes_as(const ScoreBlock<C>& b, C* HWY_RESTRICT dp, const C* HWY_RESTRICT lse,
               const C* HWY_RESTRICT delta) {
  for (int r = 0; r < b.rows; ++r, dp += kW) {
    C* HWY_RESTRICT t = b.values + r * kW;
    scores_of_row<C, kW>(b, r, t);
    for (int w = 0; w < kW; ++w) {
      const C p = element::probability(t[w], lse[kOfLanes ? w : r]);
      t[w] = p;
      dp[w] = element::slope(p, dp[w], delta[kOfLanes ? w : r]);
    }
  }
}

// Widths that products have: constants, so that lanes stay in registers.
template <class F>
HWY_INLINE void with_width(int width, const F& f) {
  static_assert(kMostLanes == 32);
  width == 32   ? f.template operator()<32>()
  : width == 16 ? f.template operator()<16>()
                : f.template operator()<8>();
}

template <class C>
void soften(const ScoreBlock<C>& b, C* largest, C* sums, C* factor) {
  with_width(b.width, [&]<int kW>() { soften_as<C, kW>(b, largest, sums, factor); });
}
template <class C>
void rescale(C* values, std::int64_t rows, int width, const C* factor) {
  with_width(width, [&]<int kW>() { rescale_as<C, kW>(values, rows, factor); });
}
template <class C>
void slopes(const ScoreBlock<C>& b, C* dp, const C* lse, const C* delta, bool of_lanes) {
  with_width(b.width, [&]<int kW>() {
    of_lanes ? slopes_as<C, kW, true>(b, dp, lse, delta)
             : slopes_as<C, kW, false>(b, dp, lse, delta);
  });
}

template <class C>
constexpr ScoreLoops<C> kLoops = {soften<C>, rescale<C>, slopes<C>};

}  // namespace

const ScoreLoops<float>* score_loops_f32() { return &kLoops<float>; }
const ScoreLoops<double>* score_loops_f64() { return &kLoops<double>; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(score_loops_f32);
HWY_EXPORT(score_loops_f64);

namespace attention {

template <>
const ScoreLoops<float>& score_loops<float>() {
  static const ScoreLoops<float>& loops = *HWY_DYNAMIC_DISPATCH(score_loops_f32)();
  return loops;
}
template <>
const ScoreLoops<double>& score_loops<double>() {
  static const ScoreLoops<double>& loops = *HWY_DYNAMIC_DISPATCH(score_loops_f64)();
  return loops;
}

}  // namespace attention
}  // namespace planck
#endif
