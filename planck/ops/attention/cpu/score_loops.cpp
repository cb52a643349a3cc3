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

// What a cap makes of one row, in place.
template <class C, int kW>
HWY_INLINE void cap_row(const ScoreBlock<C>& b, C* HWY_RESTRICT t) {
  for (int w = 0; w < kW; ++w) t[w] = element::capped(t[w], b.scale, b.cap);
}

// Scores of one row, in place, that has been capped where there is a cap.
template <class C, int kW>
HWY_INLINE void scores_of_row(const ScoreBlock<C>& b, int r, C* HWY_RESTRICT t) {
  const C scale = b.cap == C(0) ? b.scale : b.cap;
  if (b.added != nullptr) {
    const C* HWY_RESTRICT added = b.added + r * kW;
    for (int w = 0; w < kW; ++w) t[w] = element::score(t[w], scale, added[w]);
  } else {
    for (int w = 0; w < kW; ++w) t[w] = element::score(t[w], scale);
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
    if (b.cap != C(0)) cap_row<C, kW>(b, t);
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

template <class C, int kW, bool kOfLanes, bool kCapped>
void slopes_as(const ScoreBlock<C>& b, C* HWY_RESTRICT dp, const C* HWY_RESTRICT lse,
               const C* HWY_RESTRICT delta) {
  for (int r = 0; r < b.rows; ++r, dp += kW) {
    C* HWY_RESTRICT t = b.values + r * kW;
    [[maybe_unused]] alignas(64) C before[kW];
    if constexpr (kCapped) {
      cap_row<C, kW>(b, t);
      for (int w = 0; w < kW; ++w) before[w] = t[w];
    }
    scores_of_row<C, kW>(b, r, t);
    for (int w = 0; w < kW; ++w) {
      const C p = element::probability(t[w], lse[kOfLanes ? w : r]);
      t[w] = p;
      dp[w] = element::slope(p, dp[w], delta[kOfLanes ? w : r]);
    }
    if constexpr (kCapped)
      for (int w = 0; w < kW; ++w) dp[w] = element::slope_before_cap(dp[w], before[w]);
  }
}

template <class C, int kW>
void finish_as(C* HWY_RESTRICT sums, int rows, const C* HWY_RESTRICT factor) {
  for (int r = 0; r < rows; ++r, sums += kW)
    for (int w = 0; w < kW; ++w) sums[w] = element::result(sums[w], factor[w]);
}

template <class C, int kW>
void conclude_as(const C* HWY_RESTRICT largest, const C* HWY_RESTRICT sums, C* HWY_RESTRICT lse,
                 C* HWY_RESTRICT factor) {
  for (int w = 0; w < kW; ++w) {
    const C l = element::sum_of_parts(sums + w, kW);
    lse[w] = element::log_sum_exp(largest[w], l);
    factor[w] = element::row_factor(largest[w], l);
  }
}

// Neighbours are added until one is left. An odd last one waits, as in a binary counter: it joins
// the others of its length from the right.
template <class C>
C dot(const C* HWY_RESTRICT a, const C* HWY_RESTRICT b, int n) {
  alignas(64) C terms[256];
  for (int i = 0; i < n; ++i) terms[i] = a[i] * b[i];
  C rest = 0;
  bool any = false;
  for (; n > 0; n /= 2) {
    if (n % 2 != 0) {
      rest = any ? terms[n - 1] + rest : terms[n - 1];
      any = true;
    }
    for (int i = 0; i < n / 2; ++i) terms[i] = terms[2 * i] + terms[2 * i + 1];
  }
  return rest;
}

template <class C>
bool finite(const C* HWY_RESTRICT values, std::int64_t n, std::int64_t rows, std::int64_t step) {
  using Bits = decltype(math::bits_of(C(0)));
  constexpr int kLanes = 16;  // largest of each until the end
  const Bits infinity = math::bits_of(math::infinity_of(C(0)));
  Bits most[kLanes] = {};
  const auto look = [&](C value, int lane) {
    const Bits size = math::bits_of(math::abs_of(value));
    most[lane] = size > most[lane] ? size : most[lane];
  };
  for (; rows > 0; --rows, values += step) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int lane = 0; lane < kLanes; ++lane) look(values[i + lane], lane);
    for (; i < n; ++i) look(values[i], 0);
  }
  bool all = true;
  for (const Bits size : most) all &= size < infinity;
  return all;
}

template <class C, int kW>
void incline_as(C* HWY_RESTRICT added, int rows, std::int32_t base, C slope) {
  for (int r = 0; r < rows; ++r, added += kW)
    for (int w = 0; w < kW; ++w) {
      const auto apart = static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(w - r);
      added[w] += element::alibi(slope, static_cast<std::int32_t>(apart));
    }
}

template <class C>
void draw(const PhiloxStream& random, std::uint64_t first, int n, C keep, C* HWY_RESTRICT out,
          int step) {
  using Numbers = RandomBlock<C>;
  constexpr int kCount = Numbers::kCount, kCounters = element::kBlock / kCount + 1;
  const int skip = static_cast<int>(first % kCount), counters = (skip + n + kCount - 1) / kCount;
  const std::uint64_t counter = first / kCount;
  std::uint32_t words[4][kCounters];
  C numbers[kCounters * kCount];
  for (int i = 0; i < counters; ++i) {
    const Philox4 w = random.words(counter + static_cast<std::uint64_t>(i));
    for (int k = 0; k < 4; ++k) words[k][i] = w.v[k];
  }
  for (int i = 0; i < counters; ++i) {
    const Numbers v =
        Numbers::uniform(Philox4{{words[0][i], words[1][i], words[2][i], words[3][i]}});
    for (int k = 0; k < kCount; ++k) numbers[i * kCount + k] = v.v[k];
  }
  for (int i = 0; i < n; ++i) out[i * step] = numbers[skip + i] < keep ? C(1) : C(0);
}

template <class C>
void drop(C* HWY_RESTRICT values, const C* HWY_RESTRICT kept, C factor, int n) {
  for (int i = 0; i < n; ++i) values[i] = kept[i] != C(0) ? values[i] * factor : C(0);
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
void finish(C* sums, int rows, int width, const C* factor) {
  with_width(width, [&]<int kW>() { finish_as<C, kW>(sums, rows, factor); });
}
template <class C>
void conclude(const C* largest, const C* sums, int width, C* lse, C* factor) {
  with_width(width, [&]<int kW>() { conclude_as<C, kW>(largest, sums, lse, factor); });
}
template <class C>
void slopes(const ScoreBlock<C>& b, C* dp, const C* lse, const C* delta, bool of_lanes) {
  with_width(b.width, [&]<int kW>() {
    const auto run = [&]<bool kCapped>() {
      of_lanes ? slopes_as<C, kW, true, kCapped>(b, dp, lse, delta)
               : slopes_as<C, kW, false, kCapped>(b, dp, lse, delta);
    };
    b.cap == C(0) ? run.template operator()<false>() : run.template operator()<true>();
  });
}

template <class C>
void incline(C* added, int rows, int width, std::int32_t base, C slope) {
  with_width(width, [&]<int kW>() { incline_as<C, kW>(added, rows, base, slope); });
}

template <class C>
constexpr ScoreLoops<C> kLoops = {soften<C>, rescale<C>, slopes<C>,  finish<C>, conclude<C>,
                                  dot<C>,    finite<C>,  incline<C>, draw<C>,   drop<C>};

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
