// Gradients of one point's coordinates, for use inside a per-target namespace (include after
// hwy/highway.h, within foreach_target's passes): one term per channel from the rows of the taps,
// and their canonical pairwise sum.
#if defined(PLANCK_GRID_SAMPLE_SLOPES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_GRID_SAMPLE_SLOPES_INL_H_
#undef PLANCK_GRID_SAMPLE_SLOPES_INL_H_
#else
#define PLANCK_GRID_SAMPLE_SLOPES_INL_H_
#endif

#include "planck/math/pairwise_sum.h"
#include "planck/ops/grid_sample/cpu/sample_loops.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
namespace gm = grid_sample_math;

// Of one point along one axis. bilinear: weights 1 − t and t. bicubic: four, and their slopes.
template <class C>
struct AxisWeights {
  C weight[4], slope[4];
};

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

// Calls terms(at, n, buffers) for chunks of channels and sums each of kAxes buffers of terms. n
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
HWY_INLINE void bilinear_slopes(const C* const* rows, const C* dout, const AxisWeights<C>* axes,
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
HWY_INLINE void trilinear_slopes(const C* const* rows, const C* dout, const AxisWeights<C>* axes,
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
HWY_INLINE void bicubic_slopes(const C* const* rows, const C* dout, const AxisWeights<C>* axes,
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

// dgrid of a tile's points.
template <SampleMode kMode, int kDims, class C>
void tile_slopes_as(const SlopeTile<C>& tile) {
  constexpr int kTaps = kMode == SampleMode::bicubic ? 16 : kDims == 3 ? 8 : 4;
  constexpr int kAhead = 3;  // points whose rows are prefetched
  constexpr std::int64_t kLine = 64 / sizeof(C);
  const std::int64_t fetched = tile.channels < 4 * kLine ? tile.channels : 4 * kLine;
  for (int i = 0; i < tile.count; ++i) {
    if (i + kAhead < tile.count)
      for (int r = 0; r < kTaps; ++r) {
        const C* coming = tile.rows[(i + kAhead) * kTaps + r];
        for (std::int64_t c = 0; c < fetched; c += kLine) __builtin_prefetch(coming + c);
      }
    AxisWeights<C> axes[kDims];
    for (int a = 0; a < kDims; ++a) {
      const C t = tile.axes[3 - kDims + a].t[i];
      if constexpr (kMode == SampleMode::bicubic) {
        gm::cubic_weights(t, axes[a].weight);
        gm::cubic_weight_slopes(t, axes[a].slope);
      } else {
        axes[a].weight[0] = C(1) - t;
        axes[a].weight[1] = t;
      }
    }
    C sums[kDims];
    const C* const* rows = tile.rows + i * kTaps;
    if constexpr (kMode == SampleMode::bicubic)
      bicubic_slopes(rows, tile.dout[i], axes, tile.channels, tile.length, sums);
    else if constexpr (kDims == 3)
      trilinear_slopes(rows, tile.dout[i], axes, tile.channels, tile.length, sums);
    else
      bilinear_slopes(rows, tile.dout[i], axes, tile.channels, tile.length, sums);
    for (int a = 0; a < kDims; ++a) {
      const C slope = tile.axes[3 - kDims + a].slope[i];
      tile.dgrid[3 - kDims + a][i] = slope == C(0) ? C(0) : gm::canonical(sums[a] * slope);
    }
  }
}

template <class C>
void tile_slopes(SampleMode mode, int dims, const SlopeTile<C>& tile) {
  if (mode == SampleMode::bicubic) return tile_slopes_as<SampleMode::bicubic, 2>(tile);
  if (dims == 3) return tile_slopes_as<SampleMode::bilinear, 3>(tile);
  tile_slopes_as<SampleMode::bilinear, 2>(tile);
}

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
