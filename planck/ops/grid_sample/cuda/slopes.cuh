// dgrid, one thread per point and all of its channels.
#pragma once

#include "planck/ops/grid_sample/cuda/forward.cuh"
#include "planck/ops/grid_sample/cuda/pairwise.cuh"

namespace planck::sample_device {

template <class T, class I>
struct SlopeCall {
  Image<const T, I> dout, input;
  Grid<const T> grid;
  Grid<T> dgrid;
  Frame<Compute<T>, I> frame;
  int log_width;  // as in ForwardCall
  Divisor across;
  bool accumulate;
};

template <bool kInner, int kDims, class Point, class T, class I, class C>
__device__ __forceinline__ void sum_slopes(const Point& point, const T* dout, I dout_step,
                                           const T* input, I input_step, std::int64_t channels,
                                           C (&sums)[kDims]) {
  constexpr int kAtOnce = Point::kTaps > 4 ? 4 : 8;
  TreeStack<C, 30> total[kDims];
#pragma unroll 1
  for (std::int64_t c = 0; c < channels; c += kAtOnce) {
    const int count = channels - c < kAtOnce ? static_cast<int>(channels - c) : kAtOnce;
    C term[kDims][kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (u >= count) continue;
      C t[kDims];
      point.template slopes<kInner>(input + u * input_step, load(dout + u * dout_step), t);
#pragma unroll
      for (int d = 0; d < kDims; ++d) term[d][u] = t[d];
    }
#pragma unroll
    for (int d = 0; d < kDims; ++d) total[d].add(tree_of<kAtOnce>(term[d], count));
    dout += kAtOnce * dout_step;
    input += kAtOnce * input_step;
  }
#pragma unroll
  for (int d = 0; d < kDims; ++d) sums[d] = total[d].result();
}

template <SampleMode kMode, int kDims, class T, class I>
__device__ __forceinline__ void point_slopes(const SlopeCall<T, I>& a, std::int64_t n,
                                             const OutputAt& at, bool valid, unsigned warp) {
  using C = Compute<T>;
  using Point = typename PointOf<kMode, kDims, C, I>::type;
  C result[kDims] = {};
  if constexpr (Point::kHasSlopes) {
    C g[3];
    coordinates<kDims>(a.grid, n, at, g);
    Point point(g, a.frame);
    point.prepare(a.input);
    const T* dout = a.dout.data + offset_in(a.dout, n, at);
    const T* input = a.input.data + n * a.input.n;
    C sums[kDims];
    if (__all_sync(warp, point.inner()))
      sum_slopes<true>(point, dout, a.dout.c, input, a.input.c, a.frame.channels, sums);
    else
      sum_slopes<false>(point, dout, a.dout.c, input, a.input.c, a.frame.channels, sums);
#pragma unroll
    for (int d = 0; d < kDims; ++d)
      result[d] = point.slope[d] == C(0) ? C(0) : point.slope[d] * sums[d];
  }
  if (!valid) return;
  T* to = a.dgrid.data + n * a.dgrid.n + at.z * a.dgrid.z + at.y * a.dgrid.y + at.x * a.dgrid.x;
#pragma unroll
  for (int d = 0; d < kDims; ++d) {
    T* const at_d = to + d * a.dgrid.k;
    *at_d = narrow<T>(a.accumulate ? widen(*at_d) + result[d] : result[d]);
  }
}

template <class T, SampleMode kMode, int kDims, class I>
__global__ void __launch_bounds__(kThreads)
    slopes_direct(const __grid_constant__ SlopeCall<T, I> a) {
  const TilePoint tp = tile_point<kDims>(a);
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z)
    point_slopes<kMode, kDims>(a, n, tp.at, tp.valid, ~0u);
}

}  // namespace planck::sample_device
