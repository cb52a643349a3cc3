// Backward of 2-D bilinear sampling by tiles (tiles.cuh): after the sort, every thread reads what
// it needs from memory on its own, and the first-level cache serves the overlap. No barrier holds
// the warps together while they go through the channels. For grids whose neighbours read near each
// other, and for few channels.
#pragma once

#include "planck/ops/grid_sample/tiles.cuh"

namespace planck::sample_device {

// One element of dinput. kLong: there may be more than one chunk of contributions.
template <bool kLong, Reached kReached, int kChannels, class T, class C>
__device__ __forceinline__ void gather_points(const TileCall<T>& a, const TilePoints<C>& s,
                                              const Reach& r, const T* dout, int left,
                                              C (&sum)[kChannels]) {
  const int above = r.a2 - r.a0, all = r.count(), skip = r.b0 - r.a2;
  C outer[kLong ? kChannels : 1];
#pragma unroll
  for (int k = 0; k < kChannels; ++k) sum[k] = C(0);
#pragma unroll 1
  for (int i = 0; i < all; ++i) {
    const bool top = i < above;
    const int slot = r.a0 + i + (top ? 0 : skip);
    const int tap = (top ? 0 : 2) + (slot >= (top ? r.a1 : r.b1) ? 1 : 0);
    const C w = s.weight[slot * 4 + tap];
    C v[kChannels];
    fetch(dout + offset_in(a.dout, 0, place_of<kReached>(a.frame, s.sorted[slot])), a.dout.c, left,
          v);
    if (i == 0) {
#pragma unroll
      for (int k = 0; k < kChannels; ++k) sum[k] = w * v[k];
    } else if (kLong && i % kSumChunk == 0) {  // a chunk starts with its first value
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        outer[kLong ? k : 0] = i == kSumChunk ? sum[k] : outer[kLong ? k : 0] + sum[k];
        sum[k] = w * v[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < kChannels; ++k) sum[k] = sum[k] + w * v[k];
    }
  }
  if (kLong && all > kSumChunk) {
#pragma unroll
    for (int k = 0; k < kChannels; ++k) sum[k] = outer[kLong ? k : 0] + sum[k];
  }
}

// The taps of a point around input: one bit each where they are inside.
template <class T, class C>
struct SlopePoint {
  const T *input, *dout;
  std::int64_t x, y;
  unsigned inside;
  C tx, ty;
};

// The terms of up to kCount channels, summed as a tree. kFull: there are as many.
template <bool kInner, bool kFull, int kCount, class T, class C>
__device__ __forceinline__ void sum_group(const TileCall<T>& a, SlopePoint<T, C>& p, int count,
                                          C& along_x, C& along_y) {
  C v[4][kCount], d[kCount], terms_x[kCount], terms_y[kCount];
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    if (!kFull && u >= count) continue;
    d[u] = load(p.dout);
    v[0][u] = kInner || (p.inside & 1) ? load(p.input) : C(0);
    v[1][u] = kInner || (p.inside & 2) ? load(p.input + p.x) : C(0);
    v[2][u] = kInner || (p.inside & 4) ? load(p.input + p.y) : C(0);
    v[3][u] = kInner || (p.inside & 8) ? load(p.input + p.y + p.x) : C(0);
    p.input += a.input.c;
    p.dout += a.dout.c;
  }
  const C lx = C(1) - p.tx, ly = C(1) - p.ty;
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    if (!kFull && u >= count) continue;
    terms_x[u] = gm::bilinear_slope(d[u], v[0][u], v[1][u], v[2][u], v[3][u], ly, p.ty);
    terms_y[u] = gm::bilinear_slope(d[u], v[0][u], v[2][u], v[1][u], v[3][u], lx, p.tx);
  }
  along_x = tree_of<kCount>(terms_x, kFull ? kCount : count);
  along_y = tree_of<kCount>(terms_y, kFull ? kCount : count);
}

// The sums over channels along x and y.
template <bool kInner, int kLevels, class T, class C>
__device__ __forceinline__ void sum_channels(const TileCall<T>& a, SlopePoint<T, C> p, C& along_x,
                                             C& along_y) {
  const int channels = static_cast<int>(a.frame.channels);
  if constexpr (kLevels == 1) {
    sum_group<kInner, false, 4>(a, p, channels, along_x, along_y);
  } else {
    constexpr int kHalf = 4;
    TreeStack<C, kLevels> sum_x, sum_y;
    int c = 0;
#pragma unroll 1
    for (; c + 2 * kHalf <= channels; c += 2 * kHalf) {
      C x0, y0, x1, y1;
      sum_group<kInner, true, kHalf>(a, p, kHalf, x0, y0);
      sum_group<kInner, true, kHalf>(a, p, kHalf, x1, y1);
      sum_x.add(x0 + x1);
      sum_y.add(y0 + y1);
    }
    if (c < channels) {  // the tree over the rest, one term after the other
      TreeStack<C, 4> rest_x, rest_y;
#pragma unroll 1
      for (; c < channels; ++c) {
        C x, y;
        sum_group<kInner, true, 1>(a, p, 1, x, y);
        rest_x.add(x);
        rest_y.add(y);
      }
      sum_x.add(rest_x.result());
      sum_y.add(rest_y.result());
    }
    along_x = sum_x.result();
    along_y = sum_y.result();
  }
}

// dgrid of 32 × 8 points of the output, a thread a point.
template <int kLevels, bool kUnit, bool kZeros, class T>
__device__ __forceinline__ void tile_slopes(const TileCall<T>& a, int tile, int across) {
  using C = Compute<T>;
  const int tid = static_cast<int>(threadIdx.x), down = tile / across, along = tile - down * across;
  const int ox = along * 32 + tid % 32, oy = down * 8 + tid / 32;
  const bool valid = ox < a.frame.out[2] && oy < a.frame.out[1];
  const unsigned active = __ballot_sync(~0u, valid);
  if (!valid) return;
  const OutputAt at = {0, oy, ox};
  const int width = a.frame.axis[0].size, height = a.frame.axis[1].size;
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    C g[3];
    coordinates<2>(a.grid, n, at, g);
    const auto x = taps_of<kZeros>(g[0], a.frame.axis[0]);
    const auto y = taps_of<kZeros>(g[1], a.frame.axis[1]);
    SlopePoint<T, C> p;
    p.x = kUnit ? 1 : a.input.x;
    p.y = a.input.y;
    p.input = a.input.data + n * a.input.n + y.base * p.y + x.base * p.x;
    p.dout = a.dout.data + offset_in(a.dout, n, at);
    p.inside = (gm::inside(x.base, width) ? 5u : 0u) | (gm::inside(x.base + 1, width) ? 10u : 0u);
    if (!gm::inside(y.base, height)) p.inside &= ~3u;
    if (!gm::inside(y.base + 1, height)) p.inside &= ~12u;
    p.tx = x.upper;
    p.ty = y.upper;
    C along_x, along_y;
    if (__all_sync(active, p.inside == 15u))
      sum_channels<true, kLevels>(a, p, along_x, along_y);
    else
      sum_channels<false, kLevels>(a, p, along_x, along_y);
    T* to = a.dgrid.data + n * a.dgrid.n + at.y * a.dgrid.y + at.x * a.dgrid.x;
    to[0] = narrow<T>(x.slope == C(0) ? C(0) : x.slope * along_x);
    to[a.dgrid.k] = narrow<T>(y.slope == C(0) ? C(0) : y.slope * along_y);
  }
}

// One block in two has a tile of dinput, the other one (kSlopes) a tile of the output's points:
// both read dout, at about the same time. kUnit: the input's neighbours along x lie next to each
// other.
template <class T, int kChannels, bool kSlopes, Reached kReached, bool kUnit, bool kZeros,
          int kBlocks>
__global__ void __launch_bounds__(256, kBlocks)
    backward_direct(const __grid_constant__ TileCall<T> a) {
  using C = Compute<T>;
  constexpr int kLevels = kChannels > 4 ? 6 : 1, kTileWidth = BinLayout::kTileWidth;
  __shared__ __align__(16) TilePoints<C> s;
  if (is_not_meant(a)) return;
  const int tid = static_cast<int>(threadIdx.x);
  const int tile = static_cast<int>(kSlopes ? blockIdx.x / 2 : blockIdx.x);
  if (kSlopes && blockIdx.x % 2 == 1) {
    const int across = static_cast<int>((a.frame.out[2] + 31) / 32);
    tile_slopes<kLevels, kUnit, kZeros>(a, tile, across);
    return;
  }
  if (tile >= a.tiles) return;
  const int channels = static_cast<int>(a.frame.channels);
  const int tile_y = tile / a.across, tile_x = tile - tile_y * a.across;
  const int x0 = tile_x * kTileWidth, y0 = tile_y * BinLayout::kTileHeight;
  const int width = a.frame.axis[0].size, height = a.frame.axis[1].size;
  const int px = tid % kTileWidth, py = tid / kTileWidth;

  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    const std::int64_t bin = n * a.bins.bins + tile;
    const std::uint32_t in_tile = a.bins.totals[bin];
    if (in_tile > static_cast<unsigned>(BinLayout::kRound)) continue;  // for the careful kernels
    const Reach reach =
        sort_tile<kReached, kZeros, false>(a, s, n, bin, static_cast<int>(in_tile), x0, y0);
    if (x0 + px < width && y0 + py < height && !(a.accumulate && reach.count() == 0)) {
      T* dinput = a.dinput.data + n * a.dinput.n + (y0 + py) * a.dinput.y + (x0 + px) * a.dinput.x;
      const T* dout = a.dout.data + n * a.dout.n;
      if (reach.count() <= kSumChunk) {
#pragma unroll 1
        for (int c = 0; c < (kChannels > 4 ? channels : 1); c += kChannels) {
          C sum[kChannels];
          gather_points<false, kReached>(a, s, reach, dout, channels - c, sum);
          put(dinput, a.dinput.c, channels - c, a.accumulate, sum);
          dout += kChannels * a.dout.c;
          dinput += kChannels * a.dinput.c;
        }
      } else {
#pragma unroll 1
        for (int c = 0; c < channels; c += 4) {
          C sum[4];
          gather_points<true, kReached>(a, s, reach, dout, channels - c, sum);
          put(dinput, a.dinput.c, channels - c, a.accumulate, sum);
          dout += 4 * a.dout.c;
          dinput += 4 * a.dinput.c;
        }
      }
    }
    __syncthreads();
  }
}

}  // namespace planck::sample_device
