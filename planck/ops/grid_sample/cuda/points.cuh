// One point of the grid: where its taps are, and what a channel of the input gives there. One type
// for each way of sampling, all with
//   Point(g, frame)             from coordinates
//   prepare(image)              offsets of the taps
//   inner()                     whether all taps are inside: no load needs a condition
//   sample<kInner>(p)           the value of the channel that starts at p
//   slopes<kInner>(p, d, t)     the channel's terms of the gradient along x, y, z
#pragma once

#include "planck/ops/grid_sample/cuda/views.cuh"

namespace planck::sample_device {

template <int kDims, class C, class I>
struct LinearPoint {
  static constexpr int kTaps = 1 << kDims;
  static constexpr bool kHasSlopes = true;
  C lower[kDims], upper[kDims], slope[kDims];
  I base[kDims];
  I offset, step[kDims];
  unsigned inside;  // one bit per tap

  __device__ __forceinline__ LinearPoint(const C (&g)[3], const Frame<C, I>& f) {
    inside = (1u << kTaps) - 1;
#pragma unroll
    for (int a = 0; a < kDims; ++a) {
      const auto t = gm::linear_taps(g[a], f.axis[a]);
      lower[a] = t.lower;
      upper[a] = t.upper;
      slope[a] = t.slope;
      base[a] = t.base;
      // Taps with bit a: the upper ones.
      constexpr unsigned kUpper[3] = {0xaau, 0xccu, 0xf0u};
      if (!gm::inside(t.base, f.axis[a].size)) inside &= kUpper[a];
      if (!gm::inside(static_cast<I>(t.base + 1), f.axis[a].size)) inside &= ~kUpper[a];
    }
  }
  template <class T>
  __device__ __forceinline__ void prepare(const Image<T, I>& v) {
    step[0] = v.x;
    step[1] = v.y;
    offset = base[0] * step[0] + base[1] * v.y;
    if constexpr (kDims == 3) {
      step[2] = v.z;
      offset += base[2] * v.z;
    }
  }
  __device__ __forceinline__ bool inner() const { return inside == (1u << kTaps) - 1; }
  __device__ __forceinline__ bool any() const { return inside != 0; }

  __device__ __forceinline__ C weight(int k) const {
    C w = (k & 1 ? upper[0] : lower[0]) * (k & 2 ? upper[1] : lower[1]);
    if constexpr (kDims == 3) w = w * (k & 4 ? upper[2] : lower[2]);
    return w;
  }
  template <bool kInner, class T>
  __device__ __forceinline__ void values(const T* p, C (&v)[kTaps]) const {
    p += offset;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      I at = (k & 1 ? step[0] : I(0)) + (k & 2 ? step[1] : I(0));
      if constexpr (kDims == 3) at += k & 4 ? step[2] : I(0);
      v[k] = kInner || (inside >> k & 1) ? load(p + at) : C(0);
    }
  }
  template <bool kInner, class T>
  __device__ __forceinline__ C sample(const T* p) const {
    C v[kTaps];
    values<kInner>(p, v);
    C sum = weight(0) * v[0];
#pragma unroll
    for (int k = 1; k < kTaps; ++k) sum = sum + weight(k) * v[k];
    return sum;
  }
  template <bool kInner, class T>
  __device__ __forceinline__ void slopes(const T* p, C d, C (&t)[kDims]) const {
    C v[kTaps];
    values<kInner>(p, v);
    if constexpr (kDims == 2) {
      t[0] = gm::bilinear_slope(d, v[0], v[1], v[2], v[3], lower[1], upper[1]);
      t[1] = gm::bilinear_slope(d, v[0], v[2], v[1], v[3], lower[0], upper[0]);
    } else {
      t[0] = gm::trilinear_slope(d, v[1] - v[0], v[3] - v[2], v[5] - v[4], v[7] - v[6], lower[2],
                                 upper[2], lower[1], upper[1]);
      t[1] = gm::trilinear_slope(d, v[2] - v[0], v[3] - v[1], v[6] - v[4], v[7] - v[5], lower[2],
                                 upper[2], lower[0], upper[0]);
      t[2] = gm::trilinear_slope(d, v[4] - v[0], v[5] - v[1], v[6] - v[2], v[7] - v[3], lower[1],
                                 upper[1], lower[0], upper[0]);
    }
  }
};

template <int kDims, class C, class I>
struct NearestPoint {
  static constexpr int kTaps = 1;
  static constexpr bool kHasSlopes = false;
  I index[kDims], offset = 0;
  bool inside = true;

  __device__ __forceinline__ NearestPoint(const C (&g)[3], const Frame<C, I>& f) {
#pragma unroll
    for (int a = 0; a < kDims; ++a) {
      index[a] = gm::nearest_index(g[a], f.axis[a]);
      inside = inside && index[a] >= 0;
    }
  }
  template <class T>
  __device__ __forceinline__ void prepare(const Image<T, I>& v) {
    offset = index[0] * v.x + index[1] * v.y;
    if constexpr (kDims == 3) offset += index[2] * v.z;
  }
  __device__ __forceinline__ bool inner() const { return inside; }
  // The element's bits.
  template <bool kInner, class T>
  __device__ __forceinline__ T copy(const T* p) const {
    if (kInner || inside) return p[offset];
    if constexpr (sizeof(T) == 2)
      return T::from_bits(0);
    else
      return T(0);
  }
};

template <class C, class I>
struct CubicPoint {
  static constexpr int kTaps = 16;
  static constexpr bool kHasSlopes = true;
  I x[4], y[4];  // of the taps, −1 outside; after prepare() offsets
  C wx[4], wy[4], t[2], slope[2];
  unsigned outside = 0;  // bits 0 … 3 along x, 4 … 7 along y

  __device__ __forceinline__ CubicPoint(const C (&g)[3], const Frame<C, I>& f) {
    const auto tx = gm::cubic_taps(g[0], f.axis[0]), ty = gm::cubic_taps(g[1], f.axis[1]);
    t[0] = tx.t;
    t[1] = ty.t;
    slope[0] = tx.slope;
    slope[1] = ty.slope;
    gm::cubic_weights(tx.t, wx);
    gm::cubic_weights(ty.t, wy);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      x[j] = tx.cell < 0 ? I(-1) : gm::cubic_index(tx.cell, j, f.axis[0]);
      y[j] = ty.cell < 0 ? I(-1) : gm::cubic_index(ty.cell, j, f.axis[1]);
      if (x[j] < 0) outside |= 1u << j;
      if (y[j] < 0) outside |= 16u << j;
    }
  }
  template <class T>
  __device__ __forceinline__ void prepare(const Image<T, I>& v) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      x[j] *= v.x;
      y[j] *= v.y;
    }
  }
  __device__ __forceinline__ bool inner() const { return outside == 0; }

  template <bool kInner, class T>
  __device__ __forceinline__ C value(const T* p, int i, int j) const {
    const bool out = !kInner && ((outside >> (4 + i) & 1) || (outside >> j & 1));
    return out ? C(0) : load(p + (y[i] + x[j]));
  }
  template <bool kInner, class T>
  __device__ __forceinline__ C sample(const T* p) const {
    C line[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      line[i] = gm::cubic_sum(wx, value<kInner>(p, i, 0), value<kInner>(p, i, 1),
                              value<kInner>(p, i, 2), value<kInner>(p, i, 3));
    return gm::cubic_sum(wy, line[0], line[1], line[2], line[3]);
  }
  template <bool kInner, class T>
  __device__ __forceinline__ void slopes(const T* p, C d, C (&out)[2]) const {
    C dx[4], dy[4], line[4], along[4];
    gm::cubic_weight_slopes(t[0], dx);
    gm::cubic_weight_slopes(t[1], dy);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const C v0 = value<kInner>(p, i, 0), v1 = value<kInner>(p, i, 1);
      const C v2 = value<kInner>(p, i, 2), v3 = value<kInner>(p, i, 3);
      line[i] = gm::cubic_sum(wx, v0, v1, v2, v3);
      along[i] = gm::cubic_sum(dx, v0, v1, v2, v3);
    }
    out[0] = d * gm::cubic_sum(wy, along[0], along[1], along[2], along[3]);
    out[1] = d * gm::cubic_sum(dy, line[0], line[1], line[2], line[3]);
  }
};

template <SampleMode kMode, int kDims, class C, class I>
struct PointOf {
  using type = LinearPoint<kDims, C, I>;
};
template <int kDims, class C, class I>
struct PointOf<SampleMode::nearest, kDims, C, I> {
  using type = NearestPoint<kDims, C, I>;
};
template <class C, class I>
struct PointOf<SampleMode::bicubic, 2, C, I> {
  using type = CubicPoint<C, I>;
};

// Calls f(mode, dims) with integral constants.
template <class F>
Result<void> visit_mode(const GridSampleProblem& p, F&& f) {
  using std::integral_constant;
  const bool deep = p.input.rank() == 5;
  if (p.mode == SampleMode::bicubic)
    return f(integral_constant<SampleMode, SampleMode::bicubic>{}, integral_constant<int, 2>{});
  if (p.mode == SampleMode::nearest)
    return deep ? f(integral_constant<SampleMode, SampleMode::nearest>{},
                    integral_constant<int, 3>{})
                : f(integral_constant<SampleMode, SampleMode::nearest>{},
                    integral_constant<int, 2>{});
  return deep
             ? f(integral_constant<SampleMode, SampleMode::bilinear>{}, integral_constant<int, 3>{})
             : f(integral_constant<SampleMode, SampleMode::bilinear>{},
                 integral_constant<int, 2>{});
}

}  // namespace planck::sample_device
