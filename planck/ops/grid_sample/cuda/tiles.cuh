// Backward of 2-D bilinear sampling, one block per tile of 32 × 8 elements of dinput: what its
// kernels have in common.
//
// The block has a list of the points that add to its tile (place.cuh) and sorts them by cell in
// shared memory. Then every element of dinput is the sum over two runs of sorted points, written
// once; there is nothing to clear.
#pragma once

#include "planck/math/chunked_sum.h"
#include "planck/ops/grid_sample/cuda/bins.cuh"

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
  std::int32_t across, tiles;  // of dinput
  Divisor out_across;          // tiles of 32 × 8 points of the output along x
  std::int32_t dout_step;      // of positions that are joined
  bool accumulate, accumulate_grid;
  Neighbours* neighbours;     // null, or what to decide by whether this kernel runs
  bool when_scattered;        // only if the grid looks scattered, or only if not
  T *dout_rows, *input_rows;  // copies with the channels together, where there is room
};

// How elements are reached.
enum class Reached {
  anyhow,  // any strides
  joined,  // positions of dout, grid and dgrid one stride apart
};

// kChannels values of a row in shared memory.
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

// Offsets of an output position.
template <Reached kReached, class C>
__device__ __forceinline__ OutputAt place_of(const Frame<C, std::int32_t>& f, std::uint32_t point) {
  if constexpr (kReached == Reached::anyhow)
    return output_at<2>(f, point);
  else
    return {0, 0, point};
}

// The points of a tile while they are sorted by cell, and where each cell starts.
struct TileCells {
  static constexpr int kRound = BinLayout::kRound;
  static constexpr int kEach = 11;  // cells per lane; odd, so that lanes are in different banks
  static_assert(32 * kEach > BinLayout::kTileCells);
  std::uint32_t point[kRound];  // by cell alone
  std::uint32_t start[32 * kEach];
};

// And when they are sorted, by cell, then position.
template <class C>
struct TilePoints {
  alignas(16) C weight[BinLayout::kRound * 4];  // of the taps from the last to the first: lower
                                                // right, …, upper left
  std::uint32_t sorted[BinLayout::kRound];
  TileCells cells;
};

// The points of an element of dinput: [a0, a1) reach it with their upper taps along x and y,
// [a1, a2) with the lower one along x, [b0, b1) and [b1, b2) likewise with the lower one along y.
struct Reach {
  int a0, a1, a2, b0, b1, b2;
  __device__ __forceinline__ int count() const { return a2 - a0 + b2 - b0; }
};

__device__ __forceinline__ Reach reach_of(const TileCells& s, int element) {
  constexpr int kCellWidth = BinLayout::kTileWidth + 1;
  const std::uint32_t* c =
      s.start + element / BinLayout::kTileWidth * kCellWidth + element % BinLayout::kTileWidth;
  return {static_cast<int>(c[0]),
          static_cast<int>(c[1]),
          static_cast<int>(c[2]),
          static_cast<int>(c[kCellWidth]),
          static_cast<int>(c[kCellWidth + 1]),
          static_cast<int>(c[kCellWidth + 2])};
}

// The points of a thread in the order of the list, and where they were sorted to; −1: none.
struct OwnPoints {
  static constexpr int kSlots = BinLayout::kRound / 256;
  std::uint32_t point[kSlots];
  int slot[kSlots];
};

// What points bring to where they are sorted to: weights and their positions. kEager: where the
// block has little else to do, it loads what it may need before it knows how many points there are.
template <class C>
struct CarriedWeights {
  static constexpr bool kEager = false;
  TilePoints<C>& s;

  __device__ __forceinline__ void fetch(int, std::uint32_t) {}
  __device__ __forceinline__ void put(int, int slot, std::uint32_t point, C tx, C ty) {
    const C lx = C(1) - tx, ly = C(1) - ty;
    const C w[4] = {tx * ty, lx * ty, tx * ly, lx * ly};
    store_row<4>(s.weight + slot * 4, w);
    s.sorted[slot] = point;
  }
};

// By the whole block, whose threads are done with `s`; ends behind a barrier. Returns whether the
// tile's list held all of its points: if not, the tile is left to the careful kernels.
template <Reached kReached, bool kZeros, class T, class Carried>
__device__ __forceinline__ bool sort_tile(const TileCall<T>& a, TileCells& s, std::int64_t n,
                                          int tile, int x0, int y0, OwnPoints& own,
                                          Carried carried) {
  using C = Compute<T>;
  constexpr int kSlots = OwnPoints::kSlots, kEach = TileCells::kEach;
  constexpr int kCellWidth = BinLayout::kTileWidth + 1;
  const int tid = static_cast<int>(threadIdx.x);
  const std::int64_t bin = n * a.tiles + tile;
  const std::uint32_t all = a.bins.placed[bin * BinLayout::kApart];
  const std::uint32_t* list = a.bins.lists + bin * BinLayout::kRound;
  std::uint32_t(&point)[kSlots] = own.point;
  const auto read_list = [&](int count) {
#pragma unroll
    for (int k = 0; k < kSlots; ++k)
      if (tid + k * 256 < count) point[k] = list[tid + k * 256];
  };
  if constexpr (Carried::kEager) read_list(BinLayout::kRound);
  if (all > static_cast<unsigned>(BinLayout::kRound)) {
    if (tid == 0) a.bins.crowded[atomicAdd(a.bins.crowded_count, 1)] = bin;
    return false;
  }
  const int total = static_cast<int>(all);
#pragma unroll
  for (int k = 0; k < (32 * kEach + 255) / 256; ++k)
    if (tid + k * 256 < 32 * kEach) s.start[tid + k * 256] = 0;
  if constexpr (!Carried::kEager) read_list(total);
  std::uint32_t order[kSlots];
  int cell[kSlots];
  C g[kSlots][3], tx[kSlots], ty[kSlots];
  const auto locate = [&](int k, const C(&at)[3]) {
    const auto x = taps_of<kZeros>(at[0], a.frame.axis[0]);
    const auto y = taps_of<kZeros>(at[1], a.frame.axis[1]);
    cell[k] = (y.base - y0 + 1) * kCellWidth + x.base - x0 + 1;
    tx[k] = x.upper;
    ty[k] = y.upper;
  };
#pragma unroll
  for (int k = 0; k < kSlots; ++k) {
    if (tid + k * 256 >= total) continue;
    coordinates<2>(a.grid, n, place_of<kReached>(a.frame, point[k]), g[k]);
    carried.fetch(k, point[k]);
    if constexpr (!Carried::kEager) locate(k, g[k]);
  }
  if constexpr (Carried::kEager) {
#pragma unroll
    for (int k = 0; k < kSlots; ++k)
      if (tid + k * 256 < total) locate(k, g[k]);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kSlots; ++k)
    if (tid + k * 256 < total) order[k] = atomicAdd(&s.start[cell[k]], 1u);
  __syncthreads();
  if (tid < 32) {  // where each cell starts
    std::uint32_t v[kEach], sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      v[i] = sum;
      sum += s.start[tid * kEach + i];
    }
    std::uint32_t before = sum;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const std::uint32_t up = __shfl_up_sync(~0u, before, d);
      if (tid >= d) before += up;
    }
    before -= sum;
#pragma unroll
    for (int i = 0; i < kEach; ++i) s.start[tid * kEach + i] = before + v[i];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kSlots; ++k)
    if (tid + k * 256 < total) s.point[s.start[cell[k]] + order[k]] = point[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kSlots; ++k) {
    own.slot[k] = -1;
    if (tid + k * 256 >= total) continue;
    // Ascending positions within a cell.
    const int from = static_cast<int>(s.start[cell[k]]);
    const int to = static_cast<int>(s.start[cell[k] + 1]);
    int slot = from;
    if (to - from > 1) {
#pragma unroll 1
      for (int i = from; i < to; ++i) slot += s.point[i] < point[k];
    }
    carried.put(k, slot, point[k], tx[k], ty[k]);
    own.slot[k] = slot;
  }
  __syncthreads();
  return true;
}

// Contribution i of an element.
template <class C>
struct Contribution {
  int slot;
  C weight;
};
template <class C>
__device__ __forceinline__ Contribution<C> contribution(const TilePoints<C>& s, const Reach& r,
                                                        int i) {
  const int above = r.a2 - r.a0;
  const bool top = i < above;
  const int slot = i + (top ? r.a0 : r.b0 - above);
  const int tap = (top ? 0 : 2) + (slot >= (top ? r.a1 : r.b1) ? 1 : 0);
  return {slot, s.weight[slot * 4 + tap]};
}

// The sum of an element's contributions, of kChannels channels: load(slot, v) has dout. kLong:
// there may be more than one chunk. kAtOnce points are loaded at once.
//
// −0 is what leaves every number as it is when added to it.
template <bool kLong, int kAtOnce, int kChannels, class C, class Load>
__device__ __forceinline__ void sum_points(const TilePoints<C>& s, const Reach& r, Load load,
                                           C (&sum)[kChannels]) {
  const int all = r.count();
  C outer[kLong ? kChannels : 1];
#pragma unroll
  for (int k = 0; k < kChannels; ++k) sum[k] = C(-0.0);
#pragma unroll
  for (int k = 0; k < (kLong ? kChannels : 1); ++k) outer[k] = C(-0.0);
#pragma unroll 1
  for (int i = 0; i < all; i += kAtOnce) {
    C w[kAtOnce], v[kAtOnce][kChannels];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (u > 0 && i + u >= all) continue;
      const Contribution<C> c = contribution(s, r, i + u);
      w[u] = c.weight;
      load(c.slot, v[u]);
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (u > 0 && i + u >= all) continue;
      if (kLong && i + u > 0 && (i + u) % kSumChunk == 0) {
#pragma unroll
        for (int k = 0; k < kChannels; ++k) {
          outer[kLong ? k : 0] = outer[kLong ? k : 0] + sum[k];
          sum[k] = C(-0.0);
        }
      }
#pragma unroll
      for (int k = 0; k < kChannels; ++k) sum[k] = sum[k] + w[u] * v[u][k];
    }
  }
#pragma unroll
  for (int k = 0; k < kChannels; ++k) {
    if (kLong && all > kSumChunk) sum[k] = outer[kLong ? k : 0] + sum[k];
    if (all == 0) sum[k] = C(0);
  }
}

}  // namespace planck::sample_device
