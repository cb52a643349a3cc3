// Backward of 2-D bilinear sampling by tiles (tiles.cuh), some channels at a time: dout of the
// tile's points and the tile's input are brought to shared memory first. For grids whose neighbours
// read far apart: everything is read once, in whole rows where dout has them.
#pragma once

#include "planck/ops/grid_sample/tiles.cuh"

namespace planck::sample_device {

template <class T, int kChannels, bool kSlopes>
struct TileShared {
  using C = Compute<T>;
  static constexpr int kRound = BinLayout::kRound;
  // Rows of channels, so far apart that neighbours are in different banks.
  static constexpr int kPitch = kChannels + (kChannels > 4 ? 16 / static_cast<int>(sizeof(C)) : 0);
  // The tile, an element more to the right and below, and zeros to the left and above.
  static constexpr int kInWidth = BinLayout::kTileWidth + 2;
  static constexpr int kInHeight = BinLayout::kTileHeight + 2;
  C dout[kRound * kPitch];
  C input[kSlopes ? kInWidth * kInHeight * kPitch : 4];
  TilePoints<C> points;
};

// `total` rows of channels from memory, by the whole block: some lanes a row, 16 bytes a lane. The
// offset of row i, or −1 for zeros, is where(i); it goes to the row of shared memory row(i).
template <int kChannels, int kPitch, class T, class C, class Where, class Row>
__device__ __forceinline__ void fetch_rows(const T* from, int total, int left, C* to, Where where,
                                           Row row) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T)), kLanes = kChannels / kVector;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (lane * kVector >= left) return;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) / kLanes; i < total; i += 256 / kLanes) {
    const std::int64_t at = where(i);
    uint4 word = {};
    if (at >= 0) word = __ldg(reinterpret_cast<const uint4*>(from + at + lane * kVector));
    const auto r = *reinterpret_cast<const Vector<T, kVector>*>(&word);
    C v[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) v[e] = widen(r.v[e]);
    store_row<kVector>(to + row(i) * kPitch + lane * kVector, v);
  }
}

// A row of channels back to memory.
template <int kChannels, class T, class C>
__device__ __forceinline__ void put_row(T* p, int count, bool accumulate, const C (&v)[kChannels]) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  using Row = Vector<T, kVector>;
#pragma unroll
  for (int k = 0; k < kChannels; k += kVector) {
    if (k >= count) continue;
    Row r;
    if (accumulate) r = *reinterpret_cast<const Row*>(p + k);
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      r.v[e] = narrow<T>(accumulate ? widen(r.v[e]) + v[k + e] : v[k + e]);
    *reinterpret_cast<Row*>(p + k) = r;
  }
}

// dout: of the first channel. kLong: there may be more than one chunk.
template <bool kLong, int kPitch, int kChannels, class C>
__device__ __forceinline__ void add_points(const C* dout, const C* weight, const Reach& r,
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
    const C w = weight[slot * 4 + tap];
    C v[kChannels];
    load_row<kChannels>(dout + slot * kPitch, v);
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

template <class T, int kChannels, bool kSlopes, Reached kReached, bool kZeros, int kBlocks>
__global__ void __launch_bounds__(256, kBlocks)
    backward_staged(const __grid_constant__ TileCall<T> a) {
  using C = Compute<T>;
  using Shared = TileShared<T, kChannels, kSlopes>;
  constexpr int kSlots = 2, kLevels = 6;
  constexpr int kTileWidth = BinLayout::kTileWidth, kCellWidth = kTileWidth + 1;
  constexpr int kAround = kCellWidth * (BinLayout::kTileHeight + 1);
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int tid = static_cast<int>(threadIdx.x);
  const int channels = static_cast<int>(a.frame.channels);
  const int width = a.frame.axis[0].size, height = a.frame.axis[1].size;
  if (is_not_meant(a)) return;
  if (kSlopes)
    outside_points<kReached>(a, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  const std::int64_t units = a.tiles * a.frame.batch;
  for (std::int64_t unit = std::int64_t{blockIdx.z} * gridDim.x + blockIdx.x; unit < units;
       unit += std::int64_t{gridDim.x} * gridDim.z) {
    const std::int64_t n = unit / a.tiles;
    const int tile = static_cast<int>(unit - n * a.tiles);
    const int tile_y = tile / a.across, tile_x = tile - tile_y * a.across;
    const int x0 = tile_x * kTileWidth, y0 = tile_y * BinLayout::kTileHeight;
    const std::int64_t bin = n * a.bins.bins + tile;
    const std::uint32_t in_tile = a.bins.totals[bin];
    if (in_tile > static_cast<unsigned>(Shared::kRound)) continue;  // for the careful kernels
    const int total = static_cast<int>(in_tile);
    if (kSlopes && (x0 == 0 || y0 == 0))
      for (int i = tid; i < Shared::kInWidth * Shared::kInHeight * Shared::kPitch; i += 256)
        s.input[i] = C(0);
    const Reach reach = sort_tile<kReached, kZeros, kSlopes>(a, s.points, n, bin, total, x0, y0);
    const int px = tid % kTileWidth, py = tid / kTileWidth;
    const bool written = a.dinput.data != nullptr && x0 + px < width && y0 + py < height &&
                         !(a.accumulate && reach.count() == 0);
    const bool is_long = __any_sync(~0u, reach.count() > kSumChunk);
    T* dinput = a.dinput.data + n * a.dinput.n + (y0 + py) * a.dinput.y + (x0 + px) * a.dinput.x;
    // ---- channels ----
    TreeStack<C, kLevels> sum_x[kSlots], sum_y[kSlots];
#pragma unroll 1
    for (int c0 = 0; c0 < (kChannels > 4 ? channels : 1); c0 += kChannels) {
      const int left = channels - c0;
      fetch_rows<kChannels, Shared::kPitch>(
          a.dout.data + n * a.dout.n + c0, total, left, s.dout,
          [&](int i) { return s.points.sorted[i] * a.dout.x; }, [](int i) { return i; });
      if constexpr (kSlopes) {
        const auto row = [](int i) {
          const int qy = i / kCellWidth;
          return (qy + 1) * Shared::kInWidth + i - qy * kCellWidth + 1;
        };
        if (a.input_rows) {
          fetch_rows<kChannels, Shared::kPitch>(
              a.input.data + n * a.input.n + c0, kAround, left, s.input,
              [&](int i) {
                const int qy = i / kCellWidth, qx = i - qy * kCellWidth;
                return x0 + qx < width && y0 + qy < height
                           ? (y0 + qy) * a.input.y + (x0 + qx) * a.input.x
                           : std::int64_t{-1};
              },
              row);
        } else {
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const int i = tid + k * 256, qy = i / kCellWidth, qx = i - qy * kCellWidth;
            if (i >= kAround) continue;
            C v[kChannels] = {};
            if (x0 + qx < width && y0 + qy < height)
              fetch(a.input.data + n * a.input.n + c0 * a.input.c + (y0 + qy) * a.input.y +
                        (x0 + qx) * a.input.x,
                    a.input.c, left, v);
            store_row<kChannels>(s.input + row(i) * Shared::kPitch, v);
          }
        }
      }
      __syncthreads();
      if (written) {
        if (is_long) {
#pragma unroll 1
          for (int h = 0; h < kChannels && h < left; h += 4) {
            C sum[4];
            add_points<true, Shared::kPitch>(s.dout + h, s.points.weight, reach, sum);
            put(dinput + h * a.dinput.c, a.dinput.c, left - h, a.accumulate, sum);
          }
        } else {
          C sum[kChannels];
          add_points<false, Shared::kPitch>(s.dout, s.points.weight, reach, sum);
          if (a.dinput_rows)
            put_row(dinput, left, a.accumulate, sum);
          else
            put(dinput, a.dinput.c, left, a.accumulate, sum);
        }
        dinput += kChannels * a.dinput.c;
      }
      if constexpr (kSlopes) {
#pragma unroll
        for (int k = 0; k < kSlots; ++k) {
          if (tid + k * 256 >= s.points.owned) continue;
          const OwnPoint<C> own = s.points.own[tid + k * 256];
          const int cy = own.cell() / kCellWidth, cx = own.cell() - cy * kCellWidth;
          const C* v = s.input + (cy * Shared::kInWidth + cx) * Shared::kPitch;
          const C* d = s.dout + own.slot() * Shared::kPitch;
          const C lx = C(1) - own.tx, ly = C(1) - own.ty;
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
              along_x[h + e] = gm::bilinear_slope(g[e], v00[e], v01[e], v10[e], v11[e], ly, own.ty);
              along_y[h + e] = gm::bilinear_slope(g[e], v00[e], v10[e], v01[e], v11[e], lx, own.tx);
            }
          }
          const int count = left < kChannels ? left : kChannels;
          sum_x[k].add(tree_of<kChannels>(along_x, count));
          sum_y[k].add(tree_of<kChannels>(along_y, count));
        }
      }
      if (kChannels > 4) __syncthreads();
    }
    if constexpr (kSlopes) {
#pragma unroll
      for (int k = 0; k < kSlots; ++k)
        if (tid + k * 256 < s.points.owned) {
          const OwnPoint<C> own = s.points.own[tid + k * 256];
          const OutputAt at = place_of<kReached>(a.frame, own.point);
          T* to = a.dgrid.data + n * a.dgrid.n + at.y * a.dgrid.y + at.x * a.dgrid.x;
          to[0] = narrow<T>(own.along(0, sum_x[k].result(), a.frame.axis[0]));
          to[a.dgrid.k] = narrow<T>(own.along(1, sum_y[k].result(), a.frame.axis[1]));
        }
    }
    __syncthreads();
  }
}

}  // namespace planck::sample_device
