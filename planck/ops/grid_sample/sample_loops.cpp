#include "planck/ops/grid_sample/sample_loops.h"

#include <limits>
#include <numeric>

#include "planck/loops/targets.h"
#include "planck/math/pairwise_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/grid_sample/sample_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/grid_sample/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace gm = grid_sample_math;

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
    // The addresses of coming rows follow no pattern that the processor would see.
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

template <class C>
void weighted_sums(const C* const* rows, const C* weights, const int* counts, int count, int n,
                   std::int64_t channels, C* out, std::int64_t out_stride) {
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

// ---- gradients of coordinates ----

template <int kSize, class C>
HWY_INLINE C whole_tree(C* HWY_RESTRICT v) {
  if constexpr (kSize == 1) {
    return v[0];
  } else {
    for (int i = 0; i < kSize / 2; ++i) v[i] = v[2 * i] + v[2 * i + 1];
    return whole_tree<kSize / 2>(v);
  }
}

// Filled up with −0, which changes no sum, to a power of two: then every loop has constant length.
// v has room for kChannelBlock values where n is no more than that.
template <class C>
C tree_sum(C* HWY_RESTRICT v, int n) {
  if (n == 0) return C(0);
  int size = 4;
  while (size < n) size *= 2;
  for (int i = n; i < size; ++i) v[i] = C(-0.0);
  switch (size) {
    case 4:
      return whole_tree<4>(v);
    case 8:
      return whole_tree<8>(v);
    case 16:
      return whole_tree<16>(v);
    case 32:
      return whole_tree<32>(v);
    case 64:
      return whole_tree<64>(v);
    case 128:
      return whole_tree<128>(v);
    case 256:
      return whole_tree<256>(v);
    default:
      break;
  }
  for (; size > 256; size /= 2)
    for (int i = 0; i < size / 2; ++i) v[i] = v[2 * i] + v[2 * i + 1];
  return whole_tree<256>(v);
}

// The pairwise sums of a and b, n values each, at once: neighbours become halves of one vector,
// level by level. Filled up with −0, as in tree_sum; both have room for kChannelBlock values.
template <class C>
HWY_INLINE void tree_sums(C* HWY_RESTRICT a, C* HWY_RESTRICT b, int n, C& sum_a, C& sum_b) {
  if (n <= 4) {
    for (int i = n; i < 4; ++i) a[i] = b[i] = C(-0.0);
    sum_a = n == 0 ? C(0) : (a[0] + a[1]) + (a[2] + a[3]);
    sum_b = n == 0 ? C(0) : (b[0] + b[1]) + (b[2] + b[3]);
    return;
  }
#if HWY_TARGET == HWY_SCALAR
  sum_a = tree_sum(a, n);
  sum_b = tree_sum(b, n);
#else
  const hn::ScalableTag<C> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int size = lanes;
  while (size < n) size *= 2;
  for (int i = n; i < size; ++i) a[i] = b[i] = C(-0.0);
  const auto neighbours = [&](auto low, auto high) HWY_ATTR {
    return hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low));
  };
  for (; size > lanes; size /= 2)
    for (C* v : {a, b})
      for (int i = 0; i < size / 2; i += lanes)
        hn::StoreU(neighbours(hn::LoadU(d, v + 2 * i), hn::LoadU(d, v + 2 * i + lanes)), d, v + i);
  auto both = neighbours(hn::LoadU(d, a), hn::LoadU(d, b));
  for (int left = lanes / 2; left > 1; left /= 2) both = neighbours(both, both);
  hn::StoreU(both, d, a);
  sum_a = a[0];
  sum_b = a[1];
#endif
}

template <int kAxes, class C>
HWY_INLINE void sum_axes(C (*terms)[kChannelBlock], int n, C* sums) {
  tree_sums(terms[0], terms[1], n, sums[0], sums[1]);
  if constexpr (kAxes == 3) sums[2] = tree_sum(terms[2], n);
}

// Calls terms(at, n, buffers) for blocks of channels and sums each of kAxes buffers of terms. n
// goes past the channels where rows do: whole vectors.
template <int kAxes, class C, class F>
HWY_INLINE void sum_blocks(std::int64_t channels, std::int64_t length, C* sums, F terms) {
  alignas(64) C buffer[kAxes][kChannelBlock];
  if (channels <= kChannelBlock) {
    terms(std::int64_t{0}, static_cast<int>(length < kChannelBlock ? length : kChannelBlock),
          buffer);
    sum_axes<kAxes>(buffer, static_cast<int>(channels), sums);
    return;
  }
  PairwiseSum<C> total[kAxes];
  for (std::int64_t at = 0; at < channels; at += kChannelBlock) {
    const int n = static_cast<int>(channels - at < kChannelBlock ? channels - at : kChannelBlock);
    terms(at, n, buffer);
    C of_block[kAxes];
    sum_axes<kAxes>(buffer, n, of_block);
    for (int a = 0; a < kAxes; ++a) total[a].add(of_block[a]);
  }
  for (int a = 0; a < kAxes; ++a) sums[a] = total[a].result();
}

// Calls f(tag, at) over n channels, vector by vector, then lane by lane.
template <class C, class F>
HWY_INLINE void for_each_vector(int n, F f) {
  const hn::ScalableTag<C> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int at = 0;
  for (; at + lanes <= n; at += lanes) f(d, at);
  const hn::CappedTag<C, 4> few;
  const int few_lanes = static_cast<int>(hn::Lanes(few));
  for (; at + few_lanes <= n; at += few_lanes) f(few, at);
  for (; at < n; ++at) f(hn::CappedTag<C, 1>{}, at);
}

// a * x + b * y, both products rounded
template <class V>
HWY_INLINE V blend(V a, V x, V b, V y) {
  return hn::Add(hn::Mul(a, x), hn::Mul(b, y));
}

// axes: y, x.
template <class C>
void bilinear_slopes(const C* const* rows, const C* dout, const AxisWeights<C>* axes,
                     std::int64_t channels, std::int64_t length, C* sums) {
  sum_blocks<2, C>(
      channels, length, sums, [&](std::int64_t begin, int n, C(*out)[kChannelBlock]) HWY_ATTR {
        for_each_vector<C>(n, [&](auto d, int k) HWY_ATTR {
          const auto value = [&](int tap) HWY_ATTR { return hn::LoadU(d, rows[tap] + begin + k); };
          const auto weight = [&](int axis, int tap)
                                  HWY_ATTR { return hn::Set(d, axes[axis].weight[tap]); };
          const auto g = hn::LoadU(d, dout + begin + k);
          const auto v00 = value(0), v01 = value(1), v10 = value(2), v11 = value(3);
          hn::StoreU(
              hn::Mul(g, blend(hn::Sub(v10, v00), weight(1, 0), hn::Sub(v11, v01), weight(1, 1))),
              d, out[0] + k);
          hn::StoreU(
              hn::Mul(g, blend(hn::Sub(v01, v00), weight(0, 0), hn::Sub(v11, v10), weight(0, 1))),
              d, out[1] + k);
        });
      });
}

// axes: z, y, x.
template <class C>
void trilinear_slopes(const C* const* rows, const C* dout, const AxisWeights<C>* axes,
                      std::int64_t channels, std::int64_t length, C* sums) {
  sum_blocks<3, C>(
      channels, length, sums, [&](std::int64_t begin, int n, C(*out)[kChannelBlock]) HWY_ATTR {
        for_each_vector<C>(n, [&](auto d, int k) HWY_ATTR {
          using V = hn::Vec<decltype(d)>;
          const auto g = hn::LoadU(d, dout + begin + k);
          V v[8];
          for (int t = 0; t < 8; ++t) v[t] = hn::LoadU(d, rows[t] + begin + k);
          // The difference along one axis between corners t and t + step, weighted along the
          // others.
          const auto slope = [&](int step, int outer, int outer_step, int inner,
                                 int inner_step) HWY_ATTR {
            const V i0 = hn::Set(d, axes[inner].weight[0]), i1 = hn::Set(d, axes[inner].weight[1]);
            const auto difference = [&](int t) HWY_ATTR { return hn::Sub(v[t + step], v[t]); };
            const V lower = blend(difference(0), i0, difference(inner_step), i1);
            const V upper =
                blend(difference(outer_step), i0, difference(outer_step + inner_step), i1);
            return hn::Mul(g, blend(lower, hn::Set(d, axes[outer].weight[0]), upper,
                                    hn::Set(d, axes[outer].weight[1])));
          };
          hn::StoreU(slope(4, 1, 2, 2, 1), d, out[0] + k);
          hn::StoreU(slope(2, 0, 4, 2, 1), d, out[1] + k);
          hn::StoreU(slope(1, 0, 4, 1, 2), d, out[2] + k);
        });
      });
}

// axes: y, x.
template <class C>
void bicubic_slopes(const C* const* rows, const C* dout, const AxisWeights<C>* axes,
                    std::int64_t channels, std::int64_t length, C* sums) {
  sum_blocks<2, C>(channels, length, sums,
                   [&](std::int64_t begin, int n, C(*out)[kChannelBlock]) HWY_ATTR {
                     for_each_vector<C>(n, [&](auto d, int k) HWY_ATTR {
                       using V = hn::Vec<decltype(d)>;
                       V along_y = hn::Zero(d), along_x = hn::Zero(d);
                       for (int r = 0; r < 4; ++r) {
                         V line = hn::Zero(d), slope = hn::Zero(d);
                         for (int x = 0; x < 4; ++x) {
                           const V v = hn::LoadU(d, rows[4 * r + x] + begin + k);
                           const V a = hn::Mul(hn::Set(d, axes[1].weight[x]), v);
                           const V b = hn::Mul(hn::Set(d, axes[1].slope[x]), v);
                           line = x == 0 ? a : hn::Add(line, a);
                           slope = x == 0 ? b : hn::Add(slope, b);
                         }
                         const V a = hn::Mul(hn::Set(d, axes[0].slope[r]), line);
                         const V b = hn::Mul(hn::Set(d, axes[0].weight[r]), slope);
                         along_y = r == 0 ? a : hn::Add(along_y, a);
                         along_x = r == 0 ? b : hn::Add(along_x, b);
                       }
                       const V g = hn::LoadU(d, dout + begin + k);
                       hn::StoreU(hn::Mul(g, along_y), d, out[0] + k);
                       hn::StoreU(hn::Mul(g, along_x), d, out[1] + k);
                     });
                   });
}

template <class C>
constexpr SampleLoops<C> kLoops = {
    locate<C>,           weighted_sums<C>,  cubic_sums<C>, add<C>,        bilinear_slopes<C>,
    trilinear_slopes<C>, bicubic_slopes<C>, tree_sum<C>,   interleave<C>, deinterleave<C>};

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
