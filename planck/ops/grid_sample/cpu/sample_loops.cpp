#include "planck/ops/grid_sample/cpu/sample_loops.h"

#include <limits>
#include <numeric>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/grid_sample/cpu/sample_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/grid_sample/cpu/slopes-inl.h"
#include "planck/ops/grid_sample/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

template <int kValue>
using Size = std::integral_constant<int, kValue>;

// ---- coordinates ----

template <SampleMode kMode, SamplePadding kPadding, bool kAlign, class C>
void locate_as(const SampleAxis<C>& axis, const C* HWY_RESTRICT g, int n, LocatedAxis<C>& out) {
  SampleAxis<C> a = axis;
  a.padding = kPadding;
  a.align = kAlign;
  for (int i = 0; i < n; ++i) {
    if constexpr (kMode == SampleMode::nearest) {
      out.index[i] = gm::nearest_index(g[i], a);
    } else if constexpr (kMode == SampleMode::bilinear) {
      const auto taps = gm::linear_taps(g[i], a);
      out.index[i] = taps.base;
      out.t[i] = taps.upper;
      out.slope[i] = taps.slope;
    } else {
      const auto taps = gm::cubic_taps(g[i], a);
      out.index[i] = taps.cell;
      out.t[i] = taps.t;
      out.slope[i] = taps.slope;
    }
  }
}

template <SampleMode kMode, SamplePadding kPadding, class C>
void locate_padded(const SampleAxis<C>& axis, const C* g, int n, LocatedAxis<C>& out) {
  axis.align ? locate_as<kMode, kPadding, true>(axis, g, n, out)
             : locate_as<kMode, kPadding, false>(axis, g, n, out);
}

template <SampleMode kMode, class C>
void locate_in(const SampleAxis<C>& axis, const C* g, int n, LocatedAxis<C>& out) {
  switch (axis.padding) {
    case SamplePadding::zeros:
      return locate_padded<kMode, SamplePadding::zeros>(axis, g, n, out);
    case SamplePadding::border:
      return locate_padded<kMode, SamplePadding::border>(axis, g, n, out);
    case SamplePadding::reflection:
      return locate_padded<kMode, SamplePadding::reflection>(axis, g, n, out);
  }
}

template <class C>
void locate(SampleMode mode, const SampleAxis<C>& axis, const C* g, int n, LocatedAxis<C>& out) {
  switch (mode) {
    case SampleMode::bilinear:
      return locate_in<SampleMode::bilinear>(axis, g, n, out);
    case SampleMode::nearest:
      return locate_in<SampleMode::nearest>(axis, g, n, out);
    case SampleMode::bicubic:
      return locate_in<SampleMode::bicubic>(axis, g, n, out);
  }
}

// ---- sums of rows ----
//
// Written with vectors: of plain loops over arrays the compiler keeps some in memory and some
// scalar (one thread, C = 32: 1.5 times as long).

// Calls f(tag, count, at) over the channels in pieces of `count` vectors: 4, 2 or 1 whole ones,
// then shorter ones down to single lanes.
template <class C, class F>
HWY_INLINE void for_vectors(std::int64_t channels, F f) {
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t at = 0;
  for (; at + 4 * lanes <= channels; at += 4 * lanes) f(d, Size<4>{}, at);
  if (at + 2 * lanes <= channels) {
    f(d, Size<2>{}, at);
    at += 2 * lanes;
  }
  if (at + lanes <= channels) {
    f(d, Size<1>{}, at);
    at += lanes;
  }
  const hn::CappedTag<C, 4> few;
  const auto few_lanes = static_cast<std::int64_t>(hn::Lanes(few));
  for (; at + few_lanes <= channels; at += few_lanes) f(few, Size<1>{}, at);
  for (; at < channels; ++at) f(hn::CappedTag<C, 1>{}, Size<1>{}, at);
}

template <class D, class V>
HWY_INLINE V canonical_vector(D d, V v) {
  return hn::IfThenElse(
      hn::IsNaN(v), hn::Set(d, gm::canonical(std::numeric_limits<hn::TFromD<D>>::quiet_NaN())), v);
}

// Channels from `at` on of one sum; the sum stays in registers.
template <int kVectors, class D, class C>
HWY_INLINE void weighted_lanes(D d, const C* const* HWY_RESTRICT rows,
                               const C* HWY_RESTRICT weights, int count, std::int64_t at,
                               C* HWY_RESTRICT out) {
  const auto lanes = static_cast<int>(hn::Lanes(d));
  hn::Vec<D> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  if (count > 0) {
    const auto w = hn::Set(d, weights[0]);
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Mul(w, hn::LoadU(d, rows[0] + at + v * lanes));
  }
  for (int r = 1; r < count; ++r) {
    const auto w = hn::Set(d, weights[r]);
    for (int v = 0; v < kVectors; ++v)
      sum[v] = hn::Add(sum[v], hn::Mul(w, hn::LoadU(d, rows[r] + at + v * lanes)));
  }
  for (int v = 0; v < kVectors; ++v)
    hn::StoreU(canonical_vector(d, sum[v]), d, out + at + v * lanes);
}

constexpr int kAhead = 12;  // rows

template <int kCount, class C>
void weighted_sums_of(const C* const* rows, const C* weights, const int* counts, int count, int n,
                      std::int64_t channels, C* out, std::int64_t out_stride) {
  int total = n * count;
  if (kCount == 0 && counts != nullptr) total = std::accumulate(counts, counts + n, 0);
  const C* const* const last = rows + (total > 0 ? total - 1 : 0);
  constexpr std::int64_t kLine = 64 / sizeof(C);
  const std::int64_t fetched = channels < 4 * kLine ? channels : 4 * kLine;
  for (int i = 0; i < n; ++i) {
    const int m = kCount > 0 ? kCount : counts != nullptr ? counts[i] : count;
    // Rows are prefetched: their addresses follow no pattern that the processor would see.
    for (int r = 0; r < m; ++r) {
      const C* const* const coming = rows + kAhead + r;
      const C* const row = *(coming < last ? coming : last);
      for (std::int64_t c = 0; c < fetched; c += kLine) __builtin_prefetch(row + c);
    }
    for_vectors<C>(channels, [&](auto d, auto vectors, std::int64_t at) HWY_ATTR {
      weighted_lanes<vectors()>(d, rows, weights, m, at, out);
    });
    rows += m;
    weights += m;
    out += out_stride;
  }
}

// Four taps of four channels: too short a row for anything but itself.
template <class C>
void weighted_fours(const C* const* HWY_RESTRICT rows, const C* HWY_RESTRICT weights, int n,
                    C* HWY_RESTRICT out, std::int64_t out_stride) {
  const hn::CappedTag<C, 4> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < n; ++i, rows += 4, weights += 4, out += out_stride) {
    if (i + kAhead / 4 < n)
      for (int r = 0; r < 4; r += 2) __builtin_prefetch(rows[kAhead + r]);  // the others are beside
    for (int c = 0; c < 4; c += lanes) weighted_lanes<1>(d, rows, weights, 4, c, out);
  }
}

template <class C>
void weighted_sums(const C* const* rows, const C* weights, const int* counts, int count, int n,
                   std::int64_t channels, C* out, std::int64_t out_stride) {
  if (counts == nullptr && count == 4 && channels == 4)
    return weighted_fours(rows, weights, n, out, out_stride);
  if (counts == nullptr && count == 4)
    return weighted_sums_of<4>(rows, weights, counts, count, n, channels, out, out_stride);
  if (counts == nullptr && count == 8)
    return weighted_sums_of<8>(rows, weights, counts, count, n, channels, out, out_stride);
  weighted_sums_of<0>(rows, weights, counts, count, n, channels, out, out_stride);
}

template <class D, class C>
HWY_INLINE void cubic_lanes(D d, const C* const* HWY_RESTRICT rows, const C* HWY_RESTRICT w,
                            std::int64_t at, C* HWY_RESTRICT out) {
  auto sum = hn::Zero(d);
  for (int y = 0; y < 4; ++y) {
    auto line = hn::Mul(hn::Set(d, w[0]), hn::LoadU(d, rows[4 * y] + at));
    for (int x = 1; x < 4; ++x)
      line = hn::Add(line, hn::Mul(hn::Set(d, w[x]), hn::LoadU(d, rows[4 * y + x] + at)));
    line = hn::Mul(hn::Set(d, w[4 + y]), line);
    sum = y == 0 ? line : hn::Add(sum, line);
  }
  hn::StoreU(canonical_vector(d, sum), d, out + at);
}

template <class C>
void cubic_sums(const C* const* rows, const C* weights, int n, std::int64_t channels, C* out,
                std::int64_t out_stride) {
  for (int i = 0; i < n; ++i)
    for_vectors<C>(channels, [&](auto d, auto vectors, std::int64_t at) HWY_ATTR {
      const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
      for (int v = 0; v < vectors(); ++v)
        cubic_lanes(d, rows + 16 * i, weights + 8 * i, at + v * lanes, out + i * out_stride);
    });
}

template <class C>
void add(const C* HWY_RESTRICT from, C* HWY_RESTRICT to, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c] + to[c];
}

template <class C>
constexpr SampleLoops<C> kLoops = {locate<C>,     weighted_sums<C>, cubic_sums<C>,
                                   add<C>,        tile_slopes<C>,   tree_sum<C>,
                                   interleave<C>, deinterleave<C>};

}  // namespace

const SampleLoops<float>* sample_loops_f32() { return &kLoops<float>; }
const SampleLoops<double>* sample_loops_f64() { return &kLoops<double>; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(sample_loops_f32);
HWY_EXPORT(sample_loops_f64);

template <>
const SampleLoops<float>& sample_loops<float>() {
  static const SampleLoops<float>& loops = *HWY_DYNAMIC_DISPATCH(sample_loops_f32)();
  return loops;
}
template <>
const SampleLoops<double>& sample_loops<double>() {
  static const SampleLoops<double>& loops = *HWY_DYNAMIC_DISPATCH(sample_loops_f64)();
  return loops;
}

}  // namespace planck
#endif
