// dgrid of 2-D bilinear sampling, 32 × 8 points of the output per block, one thread per point.
#pragma once

#include "planck/ops/grid_sample/cuda/pairwise.cuh"
#include "planck/ops/grid_sample/cuda/tiles.cuh"

namespace planck::sample_device {

// The taps of a point around input: one bit each where they are inside.
template <class T, class C>
struct SlopePoint {
  const T *input, *dout;
  std::int64_t x, y;
  unsigned inside;
  C tx, ty;

  // kUnit: the input's neighbours along x lie next to each other.
  __device__ __forceinline__ SlopePoint(const TileCall<T>& a, std::int64_t n, const OutputAt& at,
                                        int base_x, int base_y, C upper_x, C upper_y,
                                        bool unit = true)
      : tx(upper_x), ty(upper_y) {
    const int width = a.frame.axis[0].size, height = a.frame.axis[1].size;
    x = unit ? 1 : a.input.x;
    y = a.input.y;
    input = a.input.data + n * a.input.n + base_y * y + base_x * x;
    dout = a.dout.data + offset_in(a.dout, n, at);
    inside = (gm::inside(base_x, width) ? 5u : 0u) | (gm::inside(base_x + 1, width) ? 10u : 0u);
    if (!gm::inside(base_y, height)) inside &= ~3u;
    if (!gm::inside(base_y + 1, height)) inside &= ~12u;
  }
};

// dout of a point.
template <int kCount, class C>
struct FewValues {
  C v[kCount > 0 ? kCount : 1];

  // Of up to four channels where kCount is 4.
  template <class T>
  __device__ __forceinline__ void load(const TileCall<T>& a, std::int64_t n, const OutputAt& at) {
    const T* p = a.dout.data + offset_in(a.dout, n, at);
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      v[u] = kCount != 4 || u < a.frame.channels ? sample_device::load(p) : C(0);
      p += a.dout.c;
    }
  }
};

// The terms of kCount channels, summed as a tree of kLeaves. kExact: there are as many, else
// `count`.
template <bool kInner, bool kExact, int kCount, int kLeaves, class T, class C>
__device__ __forceinline__ void sum_terms(const TileCall<T>& a, SlopePoint<T, C>& p,
                                          const C (&d)[kCount], int count, C& along_x, C& along_y) {
  C v[4][kCount], terms_x[kLeaves], terms_y[kLeaves];
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    if (!kExact && u >= count) continue;
    v[0][u] = kInner || (p.inside & 1) ? load(p.input) : C(0);
    v[1][u] = kInner || (p.inside & 2) ? load(p.input + p.x) : C(0);
    v[2][u] = kInner || (p.inside & 4) ? load(p.input + p.y) : C(0);
    v[3][u] = kInner || (p.inside & 8) ? load(p.input + p.y + p.x) : C(0);
    p.input += a.input.c;
  }
  const C lx = C(1) - p.tx, ly = C(1) - p.ty;
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    if (!kExact && u >= count) continue;
    terms_x[u] = gm::bilinear_slope(d[u], v[0][u], v[1][u], v[2][u], v[3][u], ly, p.ty);
    terms_y[u] = gm::bilinear_slope(d[u], v[0][u], v[2][u], v[1][u], v[3][u], lx, p.tx);
  }
  along_x = tree_of<kLeaves>(terms_x, kExact ? kCount : count);
  along_y = tree_of<kLeaves>(terms_y, kExact ? kCount : count);
}

// The same, with dout as it lies in memory.
template <bool kInner, bool kExact, int kCount, class T, class C>
__device__ __forceinline__ void sum_group(const TileCall<T>& a, SlopePoint<T, C>& p, int count,
                                          C& along_x, C& along_y) {
  C d[kCount];
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    if (!kExact && u >= count) continue;
    d[u] = load(p.dout);
    p.dout += a.dout.c;
  }
  sum_terms<kInner, kExact, kCount, kCount>(a, p, d, count, along_x, along_y);
}

// The sums over kFew channels along x and y, or over up to four where it is 4.
template <bool kInner, int kFew, class T, class C>
__device__ __forceinline__ void sum_few(const TileCall<T>& a, SlopePoint<T, C> p,
                                        const FewValues<kFew, C>& dout, C& along_x, C& along_y) {
  sum_terms<kInner, kFew != 4, kFew, 4>(a, p, dout.v, static_cast<int>(a.frame.channels), along_x,
                                        along_y);
}

// The same over many.
template <bool kInner, class T, class C>
__device__ __forceinline__ void sum_many(const TileCall<T>& a, SlopePoint<T, C> p, C& along_x,
                                         C& along_y) {
  constexpr int kFour = 4, kLevels = 6;
  const int channels = static_cast<int>(a.frame.channels);
  TreeStack<C, kLevels> sum_x, sum_y;
  int c = 0;
#pragma unroll 1
  for (; c + 2 * kFour <= channels; c += 2 * kFour) {
    C x0, y0, x1, y1;
    sum_group<kInner, true, kFour>(a, p, kFour, x0, y0);
    sum_group<kInner, true, kFour>(a, p, kFour, x1, y1);
    sum_x.add(x0 + x1);
    sum_y.add(y0 + y1);
  }
  if (c < channels) {  // the tree over the rest
    TreeStack<C, 3> rest_x, rest_y;
#pragma unroll 1
    for (; c < channels; c += kFour) {
      C x, y;
      sum_group<kInner, false, kFour>(a, p, min(channels - c, kFour), x, y);
      rest_x.add(x);
      rest_y.add(y);
    }
    sum_x.add(rest_x.result());
    sum_y.add(rest_y.result());
  }
  along_x = sum_x.result();
  along_y = sum_y.result();
}

template <class T, class C>
__device__ __forceinline__ void put_slopes(const TileCall<T>& a, std::int64_t n, const OutputAt& at,
                                           C slope_x, C along_x, C slope_y, C along_y) {
  T* to = a.dgrid.data + n * a.dgrid.n + at.y * a.dgrid.y + at.x * a.dgrid.x;
  C dx = slope_x == C(0) ? C(0) : slope_x * along_x;
  C dy = slope_y == C(0) ? C(0) : slope_y * along_y;
  if (a.accumulate_grid) {
    dx = widen(to[0]) + dx;
    dy = widen(to[a.dgrid.k]) + dy;
  }
  const T x = narrow<T>(dx), y = narrow<T>(dy);
  if (a.dgrid.k == 1 && reinterpret_cast<std::uintptr_t>(to) % (2 * sizeof(T)) == 0) {
    *reinterpret_cast<Vector<T, 2>*>(to) = {x, y};
  } else {
    to[0] = x;
    to[a.dgrid.k] = y;
  }
}

// By a block, of a tile of the output's points.
template <bool kUnit, bool kZeros, class T>
__device__ __forceinline__ void tile_slopes(const TileCall<T>& a, int tile) {
  using C = Compute<T>;
  const int tid = static_cast<int>(threadIdx.x);
  const int down = static_cast<int>(a.out_across.quotient(static_cast<std::uint32_t>(tile)));
  const int along = tile - down * static_cast<int>(a.out_across.value);
  const int ox = along * 32 + tid % 32, oy = down * 8 + tid / 32;
  const bool valid = ox < a.frame.out[2] && oy < a.frame.out[1];
  const unsigned active = __ballot_sync(~0u, valid);
  if (!valid) return;
  const OutputAt at = {0, oy, ox};
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    C g[3];
    coordinates<2>(a.grid, n, at, g);
    const auto x = taps_of<kZeros>(g[0], a.frame.axis[0]);
    const auto y = taps_of<kZeros>(g[1], a.frame.axis[1]);
    const SlopePoint<T, C> p(a, n, at, x.base, y.base, x.upper, y.upper, kUnit);
    C along_x, along_y;
    if (__all_sync(active, p.inside == 15u))
      sum_many<true>(a, p, along_x, along_y);
    else
      sum_many<false>(a, p, along_x, along_y);
    put_slopes(a, n, at, x.slope, along_x, y.slope, along_y);
  }
}

}  // namespace planck::sample_device
