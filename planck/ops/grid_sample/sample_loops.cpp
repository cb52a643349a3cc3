#include "planck/ops/grid_sample/sample_loops.h"

#include <numeric>

#include "planck/loops/targets.h"
#include "planck/math/pairwise_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/grid_sample/sample_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace gm = grid_sample_math;

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

// Channels [0, kLanes) of one sum; the sum stays in registers.
template <int kLanes, class C>
HWY_INLINE void weighted_lanes(const C* const* HWY_RESTRICT rows, const C* HWY_RESTRICT weights,
                               int count, std::int64_t at, C* HWY_RESTRICT out) {
  C sum[kLanes];
  if (count == 0) {
    for (int k = 0; k < kLanes; ++k) out[k] = C(0);
    return;
  }
  const C* first = rows[0] + at;
  const C w0 = weights[0];
  for (int k = 0; k < kLanes; ++k) sum[k] = w0 * first[k];
  for (int r = 1; r < count; ++r) {
    const C* row = rows[r] + at;
    const C w = weights[r];
    for (int k = 0; k < kLanes; ++k) sum[k] += w * row[k];
  }
  for (int k = 0; k < kLanes; ++k) out[k] = gm::canonical(sum[k]);
}

// Calls f(lanes, at) over the channels: wide pieces, then narrow ones. f is a generic lambda over
// std::integral_constant.
template <class C, class F>
HWY_INLINE void for_lanes(std::int64_t channels, F f) {
  constexpr int kWide = 128 / static_cast<int>(sizeof(C)),
                kMiddle = 64 / static_cast<int>(sizeof(C));
  std::int64_t at = 0;
  for (; at + kWide <= channels; at += kWide) f(std::integral_constant<int, kWide>{}, at);
  for (; at + kMiddle <= channels; at += kMiddle) f(std::integral_constant<int, kMiddle>{}, at);
  for (; at + 4 <= channels; at += 4) f(std::integral_constant<int, 4>{}, at);
  for (; at < channels; ++at) f(std::integral_constant<int, 1>{}, at);
}

constexpr int kAhead = 12;  // rows

template <int kCount, class C>
void weighted_sums_of(const C* const* rows, const C* weights, const int* counts, int count, int n,
                      std::int64_t channels, C* out, std::int64_t out_stride) {
  int total = n * count;
  if (kCount == 0 && counts != nullptr) total = std::accumulate(counts, counts + n, 0);
  const C* const* const last = rows + (total > 0 ? total - 1 : 0);
  for (int i = 0; i < n; ++i) {
    const int m = kCount > 0 ? kCount : counts != nullptr ? counts[i] : count;
    // The addresses of coming rows follow no pattern that the processor would see.
    for (int r = 0; r < m; ++r) {
      const C* const* const coming = rows + kAhead + r;
      __builtin_prefetch(*(coming < last ? coming : last));
    }
    for_lanes<C>(channels, [&](auto lanes, std::int64_t at) {
      weighted_lanes<lanes()>(rows, weights, m, at, out + at);
    });
    rows += m;
    weights += m;
    out += out_stride;
  }
}

template <class C>
void weighted_sums(const C* const* rows, const C* weights, const int* counts, int count, int n,
                   std::int64_t channels, C* out, std::int64_t out_stride) {
  if (counts == nullptr && count == 4)
    return weighted_sums_of<4>(rows, weights, counts, count, n, channels, out, out_stride);
  if (counts == nullptr && count == 8)
    return weighted_sums_of<8>(rows, weights, counts, count, n, channels, out, out_stride);
  weighted_sums_of<0>(rows, weights, counts, count, n, channels, out, out_stride);
}

template <int kLanes, class C>
HWY_INLINE void cubic_lanes(const C* const* HWY_RESTRICT rows, const C* HWY_RESTRICT w,
                            std::int64_t at, C* HWY_RESTRICT out) {
  C sum[kLanes];
  for (int y = 0; y < 4; ++y) {
    C line[kLanes];
    for (int k = 0; k < kLanes; ++k) line[k] = w[0] * rows[4 * y][at + k];
    for (int x = 1; x < 4; ++x)
      for (int k = 0; k < kLanes; ++k) line[k] += w[x] * rows[4 * y + x][at + k];
    const C wy = w[4 + y];
    if (y == 0)
      for (int k = 0; k < kLanes; ++k) sum[k] = wy * line[k];
    else
      for (int k = 0; k < kLanes; ++k) sum[k] += wy * line[k];
  }
  for (int k = 0; k < kLanes; ++k) out[k] = gm::canonical(sum[k]);
}

template <class C>
void cubic_sums(const C* const* rows, const C* weights, int n, std::int64_t channels, C* out,
                std::int64_t out_stride) {
  for (int i = 0; i < n; ++i)
    for_lanes<C>(channels, [&](auto lanes, std::int64_t at) {
      cubic_lanes<lanes()>(rows + 16 * i, weights + 8 * i, at, out + i * out_stride + at);
    });
}

template <class C>
void add(const C* HWY_RESTRICT from, C* HWY_RESTRICT to, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c] + to[c];
}

// ---- gradients of coordinates ----

template <class C>
C tree_sum(C* HWY_RESTRICT v, int n) {
  if (n == 0) return C(0);
  while (n > 1) {
    const int half = n / 2;
    for (int i = 0; i < half; ++i) v[i] = v[2 * i] + v[2 * i + 1];
    if (n % 2) v[half] = v[n - 1];
    n = half + n % 2;
  }
  return v[0];
}

// Calls terms(at, n, buffers) for blocks of channels and sums each of kAxes buffers of n terms.
template <int kAxes, class C, class F>
HWY_INLINE void sum_blocks(std::int64_t channels, C* sums, F terms) {
  alignas(64) C buffer[kAxes][kChannelBlock];
  if (channels <= kChannelBlock) {
    terms(std::int64_t{0}, static_cast<int>(channels), buffer);
    for (int a = 0; a < kAxes; ++a) sums[a] = tree_sum(buffer[a], static_cast<int>(channels));
    return;
  }
  PairwiseSum<C> total[kAxes];
  for (std::int64_t at = 0; at < channels; at += kChannelBlock) {
    const int n = static_cast<int>(channels - at < kChannelBlock ? channels - at : kChannelBlock);
    terms(at, n, buffer);
    for (int a = 0; a < kAxes; ++a) total[a].add(tree_sum(buffer[a], n));
  }
  for (int a = 0; a < kAxes; ++a) sums[a] = total[a].result();
}

// axes: y, x.
template <class C>
void bilinear_slopes(const C* const* rows, const C* dout, const AxisWeights<C>* axes,
                     std::int64_t channels, C* sums) {
  const C y0 = axes[0].weight[0], y1 = axes[0].weight[1];
  const C x0 = axes[1].weight[0], x1 = axes[1].weight[1];
  sum_blocks<2, C>(channels, sums, [&](std::int64_t at, int n, C(*out)[kChannelBlock]) {
    const C *HWY_RESTRICT a = rows[0] + at, *HWY_RESTRICT b = rows[1] + at;
    const C *HWY_RESTRICT c = rows[2] + at, *HWY_RESTRICT d = rows[3] + at;
    const C* HWY_RESTRICT g = dout + at;
    C *HWY_RESTRICT along_y = out[0], *HWY_RESTRICT along_x = out[1];
    for (int k = 0; k < n; ++k) {
      along_y[k] = gm::bilinear_slope(g[k], a[k], c[k], b[k], d[k], x0, x1);
      along_x[k] = gm::bilinear_slope(g[k], a[k], b[k], c[k], d[k], y0, y1);
    }
  });
}

// axes: z, y, x.
template <class C>
void trilinear_slopes(const C* const* rows, const C* dout, const AxisWeights<C>* axes,
                      std::int64_t channels, C* sums) {
  const C z0 = axes[0].weight[0], z1 = axes[0].weight[1];
  const C y0 = axes[1].weight[0], y1 = axes[1].weight[1];
  const C x0 = axes[2].weight[0], x1 = axes[2].weight[1];
  sum_blocks<3, C>(channels, sums, [&](std::int64_t at, int n, C(*out)[kChannelBlock]) {
    const C* HWY_RESTRICT g = dout + at;
    for (int k = 0; k < n; ++k) {
      C v[8];
      for (int t = 0; t < 8; ++t) v[t] = rows[t][at + k];
      out[0][k] = gm::trilinear_slope(g[k], v[4] - v[0], v[5] - v[1], v[6] - v[2], v[7] - v[3], y0,
                                      y1, x0, x1);
      out[1][k] = gm::trilinear_slope(g[k], v[2] - v[0], v[3] - v[1], v[6] - v[4], v[7] - v[5], z0,
                                      z1, x0, x1);
      out[2][k] = gm::trilinear_slope(g[k], v[1] - v[0], v[3] - v[2], v[5] - v[4], v[7] - v[6], z0,
                                      z1, y0, y1);
    }
  });
}

// axes: y, x.
template <class C>
void bicubic_slopes(const C* const* rows, const C* dout, const AxisWeights<C>* axes,
                    std::int64_t channels, C* sums) {
  const AxisWeights<C> y = axes[0], x = axes[1];
  sum_blocks<2, C>(channels, sums, [&](std::int64_t at, int n, C(*out)[kChannelBlock]) {
    for (int k = 0; k < n; ++k) {
      C line[4], slope[4];
      for (int r = 0; r < 4; ++r) {
        const C v0 = rows[4 * r][at + k], v1 = rows[4 * r + 1][at + k];
        const C v2 = rows[4 * r + 2][at + k], v3 = rows[4 * r + 3][at + k];
        line[r] = gm::cubic_sum(x.weight, v0, v1, v2, v3);
        slope[r] = gm::cubic_sum(x.slope, v0, v1, v2, v3);
      }
      out[0][k] = dout[at + k] * gm::cubic_sum(y.slope, line[0], line[1], line[2], line[3]);
      out[1][k] = dout[at + k] * gm::cubic_sum(y.weight, slope[0], slope[1], slope[2], slope[3]);
    }
  });
}

template <class C>
constexpr SampleLoops<C> kLoops = {
    locate<C>,          weighted_sums<C>,    cubic_sums<C>,     add<C>,
    bilinear_slopes<C>, trilinear_slopes<C>, bicubic_slopes<C>, tree_sum<C>};

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
