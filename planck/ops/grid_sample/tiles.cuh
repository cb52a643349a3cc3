// Backward of 2-D bilinear sampling, a block a tile of 32 × 8 elements of dinput: what its kernels
// have in common.
//
// The block has the points that add to its tile (sort.cuh) and sorts them by cell in shared memory.
// Then each thread adds up one element of dinput from two runs of sorted points, and computes dgrid
// of the points whose first element is in the tile. dout, input and grid are read about once from
// memory, dinput is written once, and there is nothing to clear.
#pragma once

#include "planck/math/chunked_sum.h"
#include "planck/ops/grid_sample/pairwise.cuh"
#include "planck/ops/grid_sample/sort.cuh"

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
  std::int32_t across, tiles;
  bool accumulate;
  bool input_rows, dinput_rows;   // channels of an element together, in whole vectors of 16 bytes
  const std::int32_t* scattered;  // null, or whether the grid looks scattered: then this kernel
  bool when_scattered;            // runs only if so, or only if not
};

// How elements are reached.
enum class Reached {
  anyhow,  // any strides
  joined,  // positions of dout, grid and dgrid one stride apart
  rows,    // that, and the channels of an element together in whole vectors of 16 bytes
};

// kChannels values of a row in shared memory.
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
template <int kChannels, class T, class C>
__device__ __forceinline__ void fetch(const T* p, std::int64_t step, int count, C (&v)[kChannels]) {
  if (count >= kChannels) {
#pragma unroll
    for (int k = 0; k < kChannels; ++k) {
      v[k] = load(p);
      p += step;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kChannels; ++k) v[k] = k < count ? load(p + k * step) : C(0);
  }
}

// The same the other way, added to what is there or not.
template <int kChannels, class T, class C>
__device__ __forceinline__ void put(T* p, std::int64_t step, int count, bool accumulate,
                                    const C (&v)[kChannels]) {
  if (count >= kChannels && !accumulate) {
#pragma unroll
    for (int k = 0; k < kChannels; ++k) {
      *p = narrow<T>(v[k]);
      p += step;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kChannels; ++k)
      if (k < count) {
        T* const to = p + k * step;
        *to = narrow<T>(accumulate ? widen(*to) + v[k] : v[k]);
      }
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

// One point of a tile, for the thread that computes its dgrid.
template <class C>
struct alignas(16) OwnPoint {
  std::uint32_t point;
  std::uint32_t packed;  // cell; whether it is owned; signs of its slopes; slot
  C tx, ty;

  __device__ __forceinline__ int cell() const { return static_cast<int>(packed & 511); }
  __device__ __forceinline__ int slot() const { return static_cast<int>(packed >> 14); }
  // dgrid along x or y from the sum over channels. A slope is that of the axis, its opposite, or 0.
  template <class A>
  __device__ __forceinline__ C along(int axis, C sum, const A& of_axis) const {
    const unsigned sign = packed >> (10 + 2 * axis) & 3;
    const C slope = of_axis.slope();
    return sign == 0 ? C(0) : (sign == 2 ? -slope : slope) * sum;
  }
};

// The points of a tile.
template <class C>
struct TilePoints {
  static constexpr int kRound = BinLayout::kRound, kCells = BinLayout::kTileCells;
  OwnPoint<C> own[kRound];  // those whose dgrid is the tile's, in any order
  // Sorted by cell, then position:
  alignas(16)
      C weight[kRound * 4];  // of the taps from the last to the first: lower right, …, upper left
  std::uint32_t sorted[kRound], point[kRound];
  std::uint32_t start[kCells + 3], count[kCells + 3];
  int owned;
};

// The points of an element of dinput: [a0, a1) reach it with their upper taps along x and y,
// [a1, a2) with the lower one along x, [b0, b1) and [b1, b2) likewise with the lower one along y.
struct Reach {
  int a0, a1, a2, b0, b1, b2;
  __device__ __forceinline__ int count() const { return a2 - a0 + b2 - b0; }
};

// By the whole block; ends behind a barrier. kOwn: also the points whose dgrid is the tile's.
template <Reached kReached, bool kZeros, bool kOwn, class T, class C>
__device__ __forceinline__ Reach sort_tile(const TileCall<T>& a, TilePoints<C>& s, std::int64_t n,
                                           std::int64_t bin, int total, int x0, int y0) {
  constexpr int kSlots = 2, kCells = TilePoints<C>::kCells;
  constexpr int kCellWidth = BinLayout::kTileWidth + 1;
  const int tid = static_cast<int>(threadIdx.x);
  const std::uint32_t* entries = a.bins.entries_of(n) + a.bins.starts[bin];
  for (int i = tid; i < kCells + 3; i += 256) s.count[i] = 0;
  if (tid == 0) s.owned = 0;
  __syncthreads();
  std::uint32_t point[kSlots], order[kSlots], packed[kSlots];
  C tx[kSlots], ty[kSlots];
#pragma unroll
  for (int k = 0; k < kSlots; ++k) {
    const int i = tid + k * 256;
    packed[k] = 0;
    if (i >= total) continue;
    point[k] = entries[i];
    C g[3];
    coordinates<2>(a.grid, n, place_of<kReached>(a.frame, point[k]), g);
    const auto x = taps_of<kZeros>(g[0], a.frame.axis[0]);
    const auto y = taps_of<kZeros>(g[1], a.frame.axis[1]);
    const int cell = (y.base - y0 + 1) * kCellWidth + x.base - x0 + 1;
    tx[k] = x.upper;
    ty[k] = y.upper;
    const bool owned = max(x.base, 0) >= x0 && max(y.base, 0) >= y0;
    const unsigned sign_x = x.slope > C(0) ? 1 : x.slope < C(0) ? 2 : 0;
    const unsigned sign_y = y.slope > C(0) ? 1 : y.slope < C(0) ? 2 : 0;
    packed[k] = static_cast<unsigned>(cell) | (owned ? 512u : 0u) | sign_x << 10 | sign_y << 12;
    order[k] = atomicAdd(&s.count[cell], 1u);
  }
  __syncthreads();
  {
    const int c = 2 * tid;
    const std::uint32_t v0 = c < kCells ? s.count[c] : 0;
    const std::uint32_t v1 = c + 1 < kCells ? s.count[c + 1] : 0;
    std::uint32_t all;
    const std::uint32_t before = block_scan<8>(v0 + v1, all);
    if (c < kCells + 3) s.start[c] = before;
    if (c + 1 < kCells + 3) s.start[c + 1] = before + v0;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kSlots; ++k)
    if (tid + k * 256 < total) s.point[s.start[packed[k] & 511] + order[k]] = point[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kSlots; ++k) {
    int slot = 0;
    if (tid + k * 256 < total) {  // ascending positions within a cell
      const int cell = static_cast<int>(packed[k] & 511);
      const int from = static_cast<int>(s.start[cell]), to = static_cast<int>(s.start[cell + 1]);
      slot = from;
      if (to - from > 1) {
#pragma unroll 1
        for (int i = from; i < to; ++i) slot += s.point[i] < point[k];
      }
      const C lx = C(1) - tx[k], ly = C(1) - ty[k];
      const C w[4] = {tx[k] * ty[k], lx * ty[k], tx[k] * ly, lx * ly};
      store_row<4>(s.weight + slot * 4, w);
      s.sorted[slot] = point[k];
    }
    if constexpr (kOwn) {
      const bool mine = packed[k] & 512;
      const unsigned which = __ballot_sync(~0u, mine);
      int base = 0;
      if (tid % 32 == 0 && which != 0) base = atomicAdd(&s.owned, __popc(which));
      base = __shfl_sync(~0u, base, 0);
      if (mine)
        s.own[base + __popc(which & ((1u << (tid % 32)) - 1))] = {
            point[k], packed[k] | static_cast<unsigned>(slot) << 14, tx[k], ty[k]};
    }
  }
  __syncthreads();
  const std::uint32_t* c =
      s.start + tid / BinLayout::kTileWidth * kCellWidth + tid % BinLayout::kTileWidth;
  return {static_cast<int>(c[0]),
          static_cast<int>(c[1]),
          static_cast<int>(c[2]),
          static_cast<int>(c[kCellWidth]),
          static_cast<int>(c[kCellWidth + 1]),
          static_cast<int>(c[kCellWidth + 2])};
}

// dgrid of points that reach no element: their values are all +0, dout may still be -0, NaN or Inf.
template <Reached kReached, class T>
__device__ __noinline__ void outside_points(const TileCall<T>& a, int part, int parts) {
  using C = Compute<T>;
  const std::int64_t channels = a.frame.channels;
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    const std::int64_t bin = n * a.bins.bins + a.tiles;
    const std::uint32_t total = a.bins.totals[bin];
    const std::uint32_t* entries = a.bins.entries_of(n) + a.bins.starts[bin];
    for (std::uint32_t i = static_cast<std::uint32_t>(part) * 256 + threadIdx.x; i < total;
         i += static_cast<std::uint32_t>(parts) * 256) {
      const OutputAt at = place_of<kReached>(a.frame, entries[i]);
      const T* dout = a.dout.data + offset_in(a.dout, n, at);
      // The tree of signed zeros: −0 where all are, NaN where one is.
      bool nan = false, positive = channels == 0;
#pragma unroll 8
      for (std::int64_t c = 0; c < channels; ++c) {
        const C term = load(dout) * C(0);
        nan = nan || term != term;
        positive = positive || !signbit(term);
        dout += a.dout.c;
      }
      const C sum = nan ? C(NAN) : positive ? C(0) : C(-0.0);
      C g[3];
      coordinates<2>(a.grid, n, at, g);
      T* to = a.dgrid.data + n * a.dgrid.n + at.y * a.dgrid.y + at.x * a.dgrid.x;
#pragma unroll
      for (int d = 0; d < 2; ++d) {
        const C slope = gm::linear_taps(g[d], a.frame.axis[d]).slope;
        to[d * a.dgrid.k] = narrow<T>(slope == C(0) ? C(0) : slope * sum);
      }
    }
  }
}

}  // namespace planck::sample_device
