// Bins of points: where their lists are, and which ones a point belongs to.
#pragma once

#include "planck/ops/grid_sample/cuda/layout.h"
#include "planck/ops/grid_sample/cuda/points.cuh"

namespace planck::sample_device {

struct BinCall {
  std::uint32_t *cursors, *counts, *totals, *starts, *entries, *sorted, *cell_starts;
  std::uint32_t *placed, *lists;  // of tiles
  std::int64_t* crowded;
  std::int32_t* crowded_count;
  std::int64_t* busy;
  unsigned long long* busy_count;
  std::int64_t batch, points, bins, bands, band, segments, segment, copies;
  std::int32_t bin_cells;
  bool tiled;

  // Whether no tile has more points than its list holds: nothing is left to the careful kernels.
  __device__ __forceinline__ bool nothing_crowded() const { return tiled && *crowded_count == 0; }

  __device__ __forceinline__ std::uint32_t* entries_of(std::int64_t n) const {
    return entries + n * copies * points;
  }
  __device__ __forceinline__ std::uint32_t* sorted_of(std::int64_t n) const {
    return sorted + n * copies * points;
  }
};

// The tiles that a point of 2-D bilinear sampling adds to.
template <class T, bool kZeros>
struct TileBins {
  using C = Compute<T>;
  using Index = std::int32_t;
  static constexpr int kMost = 4;
  Grid<const T> grid;
  Frame<C, std::int32_t> frame;
  std::int32_t across;  // tiles along x
  bool joined;          // positions of the grid are one stride apart

  struct Span {  // cell, and the tiles of its first and last element inside, or low > high
    std::int32_t base, low, high;
  };
  __device__ __forceinline__ static Span span(std::int32_t base,
                                              const gm::Axis<C, std::int32_t>& axis, int shift) {
    const std::int32_t first = base < 0 ? 0 : base;
    const std::int32_t last = base + 1 < axis.size ? base + 1 : axis.size - 1;
    return {base, first >> shift, base == -2 ? -1 : last >> shift};
  }
  __device__ __forceinline__ void load(std::int64_t n, std::uint32_t p, C (&g)[3]) const {
    if (joined)
      coordinates<2>(grid, n, {0, 0, p}, g);
    else
      coordinates<2>(grid, n, output_at<2>(frame, p), g);
  }
  // Returns which of out[] are bins.
  __device__ __forceinline__ unsigned bins(const C (&g)[3], Index (&out)[kMost]) const {
    return tiles(taps_of<kZeros>(g[0], frame.axis[0]).base,
                 taps_of<kZeros>(g[1], frame.axis[1]).base, frame, across, out);
  }
  __device__ __forceinline__ static unsigned tiles(std::int32_t base_x, std::int32_t base_y,
                                                   const Frame<C, std::int32_t>& f,
                                                   std::int32_t across, Index (&out)[kMost]) {
    const Span x = span(base_x, f.axis[0], 5), y = span(base_y, f.axis[1], 3);
    out[0] = y.low * across + x.low;
    out[1] = out[0] + 1;
    out[2] = out[0] + across;
    out[3] = out[2] + 1;
    const unsigned right = x.high > x.low, down = y.high > y.low;
    const bool none = x.high < x.low || y.high < y.low;
    return none ? 0 : 1 | right << 1 | down << 2 | (right & down) << 3;
  }
  // The point's cell among those of a tile.
  __device__ __forceinline__ int cell(std::int64_t n, std::uint32_t p, std::int64_t bin) const {
    C g[3];
    load(n, p, g);
    const auto tile = static_cast<std::int32_t>(bin);
    const std::int32_t ty = tile / across, tx = tile - ty * across;
    const std::int32_t x = taps_of<kZeros>(g[0], frame.axis[0]).base - tx * BinLayout::kTileWidth;
    const std::int32_t y = taps_of<kZeros>(g[1], frame.axis[1]).base - ty * BinLayout::kTileHeight;
    return (y + 1) * (BinLayout::kTileWidth + 1) + x + 1;
  }
};

// Cells along one axis; −1 where a point adds to nothing.
template <SampleMode kMode, class C>
__device__ __forceinline__ std::int64_t axis_cell(C g, const gm::Axis<C, std::int64_t>& axis) {
  if constexpr (kMode == SampleMode::nearest) {
    return gm::nearest_index(g, axis);
  } else if constexpr (kMode == SampleMode::bicubic) {
    return gm::cubic_taps(g, axis).cell;
  } else {
    return gm::linear_taps(g, axis).base + 1;
  }
}

// Runs of cells, for every other way of sampling.
template <class T, SampleMode kMode, int kDims>
struct CellBins {
  using C = Compute<T>;
  using Index = std::int64_t;
  static constexpr int kMost = 1;
  Grid<const T> grid;
  Frame<C, std::int64_t> frame;
  std::int64_t cells[3];

  __device__ __forceinline__ void load(std::int64_t n, std::uint32_t p, C (&g)[3]) const {
    coordinates<kDims>(grid, n, output_at<kDims>(frame, p), g);
  }
  __device__ __forceinline__ std::int64_t linear(const C (&g)[3]) const {
    std::int64_t at = 0;
    bool some = true;
#pragma unroll
    for (int a = kDims - 1; a >= 0; --a) {
      const std::int64_t c = axis_cell<kMode>(g[a], frame.axis[a]);
      some = some && c >= 0;
      at = at * cells[a] + c;
    }
    return some ? at : -1;
  }
  __device__ __forceinline__ unsigned bins(const C (&g)[3], Index (&out)[kMost]) const {
    const std::int64_t at = linear(g);
    out[0] = at / BinLayout::kCellsOfRun;
    return at >= 0;
  }
  __device__ __forceinline__ int cell(std::int64_t n, std::uint32_t p, std::int64_t bin) const {
    C g[3];
    load(n, p, g);
    return static_cast<int>(linear(g) - bin * BinLayout::kCellsOfRun);
  }
};

}  // namespace planck::sample_device
