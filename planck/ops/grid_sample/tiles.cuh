// Backward of 2-D bilinear sampling, a block a tile of 32 × 8 elements of dinput.
//
// The block has the points that add to its tile (bins.cuh), sorts them by cell in shared memory,
// and then, a few channels at a time, brings their dout and the tile's input to shared memory: each
// thread adds up one element of dinput from two runs of sorted points, and computes dgrid of the
// points whose first element is in the tile. dout, input and grid are read about once, dinput is
// written once, and there is nothing to clear.
#pragma once

#include "planck/math/chunked_sum.h"
#include "planck/ops/grid_sample/bins.cuh"
#include "planck/ops/grid_sample/pairwise.cuh"

namespace planck::sample_device {

template <class T>
struct TileCall {
  using I = std::int64_t;  // an image may have more than 2^31 elements; none of its axes has
  Image<const T, I> dout, input;
  Grid<const T> grid;
  Image<T, I> dinput;
  Grid<T> dgrid;
  Frame<Compute<T>, std::int32_t> frame;
  BinCall bins;
  std::int32_t across;
  bool accumulate;
};

template <class T, int kChannels, bool kSlopes>
struct TileShared {
  using C = Compute<T>;
  static constexpr int kRound = BinLayout::kRound, kCells = BinLayout::kTileCells;
  // Rows of channels, so far apart that neighbours are in different banks.
  static constexpr int kPitch = kChannels + (kChannels > 4 ? 16 / static_cast<int>(sizeof(C)) : 0);
  // The tile, an element more to the right and below, and zeros to the left and above.
  static constexpr int kInWidth = BinLayout::kTileWidth + 2;
  static constexpr int kInHeight = BinLayout::kTileHeight + 2;
  C dout[kRound * kPitch];
  C input[kSlopes ? kInWidth * kInHeight * kPitch : 1];
  C tx[kRound], ty[kRound];
  std::uint32_t point[kRound];
  std::uint32_t start[kCells + 3];
  std::uint32_t count[kCells + 3];
};

// kChannels values of a row.
template <int kChannels, class C>
__device__ __forceinline__ void load_row(const C* row, C (&v)[kChannels]) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(C));
  using Row = Vector<C, kVector>;
#pragma unroll
  for (int k = 0; k < kChannels; k += kVector) {
    const Row r = *reinterpret_cast<const Row*>(row + k);
#pragma unroll
    for (int e = 0; e < kVector; ++e) v[k + e] = r.v[e];
  }
}
template <int kChannels, class C>
__device__ __forceinline__ void store_row(C* row, const C (&v)[kChannels]) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(C));
  using Row = Vector<C, kVector>;
#pragma unroll
  for (int k = 0; k < kChannels; k += kVector) {
    Row r;
#pragma unroll
    for (int e = 0; e < kVector; ++e) r.v[e] = v[k + e];
    *reinterpret_cast<Row*>(row + k) = r;
  }
}
// Channels of one element in memory; those past `count` are left 0.
template <int kChannels, class T, class C, class I>
__device__ __forceinline__ void fetch(const T* p, I step, int count, C (&v)[kChannels]) {
  if (count >= kChannels) {
#pragma unroll
    for (int k = 0; k < kChannels; ++k) v[k] = load(p + k * step);
  } else {
#pragma unroll
    for (int k = 0; k < kChannels; ++k) v[k] = k < count ? load(p + k * step) : C(0);
  }
}

// The points of an element of dinput: [a0, a1) reach it with their upper taps along x and y,
// [a1, a2) with the lower one along x, [b0, b1) and [b1, b2) likewise with the lower one along y.
struct Reach {
  int a0, a1, a2, b0, b1, b2;
  __device__ __forceinline__ int count() const { return a2 - a0 + b2 - b0; }
};

template <int kChannels, class Shared, class C>
__device__ __forceinline__ void add_points(const Shared& s, const Reach& r, C (&sum)[kChannels]) {
  const int above = r.a2 - r.a0, all = r.count();
  C outer[kChannels];
#pragma unroll
  for (int k = 0; k < kChannels; ++k) sum[k] = outer[k] = C(0);
  for (int i = 0; i < all; ++i) {
    const bool top = i < above;
    const int slot = top ? r.a0 + i : r.b0 + i - above;
    const C tx = s.tx[slot], ty = s.ty[slot];
    const C w = (slot < (top ? r.a1 : r.b1) ? tx : C(1) - tx) * (top ? ty : C(1) - ty);
    C v[kChannels];
    load_row<kChannels>(s.dout + slot * Shared::kPitch, v);
    if (i % kSumChunk == 0) {  // a chunk starts with its first value
      const bool first = i <= kSumChunk;
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        if (i > 0) outer[k] = first ? sum[k] : outer[k] + sum[k];
        sum[k] = w * v[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < kChannels; ++k) sum[k] = sum[k] + w * v[k];
    }
  }
  if (all > kSumChunk) {
#pragma unroll
    for (int k = 0; k < kChannels; ++k) sum[k] = outer[k] + sum[k];
  }
}

template <class T, int kChannels, bool kSlopes, int kBlocks>
__global__ void __launch_bounds__(256, kBlocks)
    backward_tile(const __grid_constant__ TileCall<T> a) {
  using C = Compute<T>;
  using Shared = TileShared<T, kChannels, kSlopes>;
  constexpr int kSlots = 2, kLevels = kChannels > 4 ? 8 : 1;
  constexpr int kTileWidth = BinLayout::kTileWidth, kCellWidth = kTileWidth + 1;
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int tid = static_cast<int>(threadIdx.x);
  const int channels = static_cast<int>(a.frame.channels);
  const int tile = static_cast<int>(blockIdx.x);
  const int tile_y = tile / a.across, tile_x = tile - tile_y * a.across;
  const int x0 = tile_x * kTileWidth, y0 = tile_y * BinLayout::kTileHeight;
  const int width = a.frame.axis[0].size, height = a.frame.axis[1].size;

  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    const std::int64_t bin = n * a.bins.bins + tile;
    const int total = static_cast<int>(min(a.bins.totals[bin], 1u << 30));
    if (total > Shared::kRound) continue;  // left to the careful kernels
    const std::uint32_t* entries = a.bins.entries_of(n) + a.bins.starts[bin];

    // ---- points, sorted by cell ----
    for (int i = tid; i < Shared::kCells + 3; i += 256) s.count[i] = 0;
    if constexpr (kSlopes)
      for (int i = tid; i < Shared::kInWidth * Shared::kInHeight * Shared::kPitch; i += 256)
        s.input[i] = C(0);
    __syncthreads();
    std::uint32_t point[kSlots], order[kSlots];
    int cell[kSlots], slot[kSlots];
    C tx[kSlots], ty[kSlots];
    bool owned[kSlots];
    const T* dout[kSlots];
#pragma unroll
    for (int k = 0; k < kSlots; ++k) {
      const int i = tid + k * 256;
      cell[k] = -1;
      owned[k] = false;
      if (i >= total) continue;
      point[k] = entries[i];
      const OutputAt at = output_at<2>(a.frame, point[k]);
      C g[3];
      coordinates<2>(a.grid, n, at, g);
      const auto x = gm::linear_taps(g[0], a.frame.axis[0]);
      const auto y = gm::linear_taps(g[1], a.frame.axis[1]);
      cell[k] = (y.base - y0 + 1) * kCellWidth + x.base - x0 + 1;
      tx[k] = x.upper;
      ty[k] = y.upper;
      owned[k] = max(x.base, 0) >= x0 && max(y.base, 0) >= y0;
      dout[k] = a.dout.data + offset_in(a.dout, n, at);
      order[k] = atomicAdd(&s.count[cell[k]], 1u);
    }
    __syncthreads();
    {
      const int c = 2 * tid;
      const std::uint32_t v0 = c < Shared::kCells ? s.count[c] : 0;
      const std::uint32_t v1 = c + 1 < Shared::kCells ? s.count[c + 1] : 0;
      std::uint32_t all;
      const std::uint32_t before = block_scan(v0 + v1, all);
      if (c < Shared::kCells + 3) s.start[c] = before;
      if (c + 1 < Shared::kCells + 3) s.start[c + 1] = before + v0;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kSlots; ++k)
      if (cell[k] >= 0) s.point[s.start[cell[k]] + order[k]] = point[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kSlots; ++k)
      if (cell[k] >= 0) {  // ascending positions within a cell
        const int from = static_cast<int>(s.start[cell[k]]);
        const int to = static_cast<int>(s.start[cell[k] + 1]);
        slot[k] = from;
        if (to - from > 1)
          for (int i = from; i < to; ++i) slot[k] += s.point[i] < point[k];
        s.tx[slot[k]] = tx[k];
        s.ty[slot[k]] = ty[k];
      }
    const int px = tid % kTileWidth, py = tid / kTileWidth;
    const int c = py * kCellWidth + px;
    const Reach reach = {static_cast<int>(s.start[c]),
                         static_cast<int>(s.start[c + 1]),
                         static_cast<int>(s.start[c + 2]),
                         static_cast<int>(s.start[c + kCellWidth]),
                         static_cast<int>(s.start[c + kCellWidth + 1]),
                         static_cast<int>(s.start[c + kCellWidth + 2])};
    const bool inside = x0 + px < width && y0 + py < height;
    const bool written =
        a.dinput.data != nullptr && inside && !(a.accumulate && reach.count() == 0);
    T* dinput = nullptr;
    if (written)
      dinput = a.dinput.data + n * a.dinput.n + (y0 + py) * a.dinput.y + (x0 + px) * a.dinput.x;

    // ---- channels ----
    TreeStack<C, kLevels> sum_x[kSlots], sum_y[kSlots];
    for (int c0 = 0; c0 < channels; c0 += kChannels) {
      const int left = channels - c0;
#pragma unroll
      for (int k = 0; k < kSlots; ++k)
        if (cell[k] >= 0) {
          C v[kChannels];
          fetch<kChannels>(dout[k] + c0 * a.dout.c, a.dout.c, left, v);
          store_row<kChannels>(s.dout + slot[k] * Shared::kPitch, v);
        }
      if constexpr (kSlopes) {
        constexpr int kAround = kCellWidth * (BinLayout::kTileHeight + 1);
        for (int i = tid; i < kAround; i += 256) {
          const int qy = i / kCellWidth, qx = i - qy * kCellWidth;
          if (x0 + qx >= width || y0 + qy >= height) continue;
          const T* p = a.input.data + n * a.input.n + c0 * a.input.c + (y0 + qy) * a.input.y +
                       (x0 + qx) * a.input.x;
          C v[kChannels];
          fetch<kChannels>(p, a.input.c, left, v);
          store_row<kChannels>(s.input + ((qy + 1) * Shared::kInWidth + qx + 1) * Shared::kPitch,
                               v);
        }
      }
      __syncthreads();
      if (written) {
        C sum[kChannels];
        add_points<kChannels>(s, reach, sum);
        T* out = dinput + c0 * a.dinput.c;
#pragma unroll
        for (int k = 0; k < kChannels; ++k)
          if (k < left) {
            T* to = out + k * a.dinput.c;
            *to = narrow<T>(a.accumulate ? widen(*to) + sum[k] : sum[k]);
          }
      }
      if constexpr (kSlopes) {
#pragma unroll
        for (int k = 0; k < kSlots; ++k) {
          if (!owned[k]) continue;
          const int cy = cell[k] / kCellWidth, cx = cell[k] - cy * kCellWidth;
          const C* v = s.input + (cy * Shared::kInWidth + cx) * Shared::kPitch;
          const C* d = s.dout + slot[k] * Shared::kPitch;
          const C ux = s.tx[slot[k]], uy = s.ty[slot[k]], lx = C(1) - ux, ly = C(1) - uy;
          C along_x[kChannels], along_y[kChannels];
#pragma unroll
          for (int h = 0; h < kChannels; h += 4) {
            C v00[4], v01[4], v10[4], v11[4], g[4];
            load_row<4>(v + h, v00);
            load_row<4>(v + Shared::kPitch + h, v01);
            load_row<4>(v + Shared::kInWidth * Shared::kPitch + h, v10);
            load_row<4>(v + (Shared::kInWidth + 1) * Shared::kPitch + h, v11);
            load_row<4>(d + h, g);
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              along_x[h + e] = gm::bilinear_slope(g[e], v00[e], v01[e], v10[e], v11[e], ly, uy);
              along_y[h + e] = gm::bilinear_slope(g[e], v00[e], v10[e], v01[e], v11[e], lx, ux);
            }
          }
          const int count = left < kChannels ? left : kChannels;
          sum_x[k].add(tree_of<kChannels>(along_x, count));
          sum_y[k].add(tree_of<kChannels>(along_y, count));
        }
      }
      __syncthreads();
    }
    if constexpr (kSlopes) {
#pragma unroll
      for (int k = 0; k < kSlots; ++k)
        if (owned[k]) {
          const OutputAt at = output_at<2>(a.frame, point[k]);
          T* to = a.dgrid.data + n * a.dgrid.n + at.y * a.dgrid.y + at.x * a.dgrid.x;
          C g[3];
          coordinates<2>(a.grid, n, at, g);  // once more, rather than kept in registers
          const C slope_x = gm::linear_taps(g[0], a.frame.axis[0]).slope;
          const C slope_y = gm::linear_taps(g[1], a.frame.axis[1]).slope;
          const C gx = slope_x == C(0) ? C(0) : slope_x * sum_x[k].result();
          const C gy = slope_y == C(0) ? C(0) : slope_y * sum_y[k].result();
          to[0] = narrow<T>(gx);
          to[a.dgrid.k] = narrow<T>(gy);
        }
    }
    __syncthreads();
  }
}

}  // namespace planck::sample_device
