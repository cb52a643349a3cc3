// The points that add to an element of dinput, for every way of sampling: a run of sorted points
// (sort_cells) for each of the cells that reach it.
#pragma once

#include "planck/ops/grid_sample/cuda/bins.cuh"

namespace planck::sample_device {

// The cells that reach an element along one axis, and with which tap, ascending.
template <SampleMode kMode>
struct AxisCells {
  // bicubic, border, one element: four cells of four taps.
  static constexpr int kMost = kMode == SampleMode::bicubic    ? 16
                               : kMode == SampleMode::bilinear ? 2
                                                               : 1;
  static constexpr int kTaps = kMode == SampleMode::bicubic    ? 4
                               : kMode == SampleMode::bilinear ? 2
                                                               : 1;
  static constexpr bool kSearched = kMode == SampleMode::bicubic;
  std::int64_t first = 0;
  int count = kTaps;
  // False: kTaps cells from `first` on, the last tap first. So it is but for bicubic sampling near
  // an edge that repeats elements.
  bool searched = false;
  std::int64_t found[kSearched ? kMost : 1];
  std::int8_t found_tap[kSearched ? kMost : 1];

  __device__ __forceinline__ std::int64_t cell(int i) const {
    if (kSearched && searched) return found[kSearched ? i : 0];
    return first + i;
  }
  __device__ __forceinline__ int tap(int i) const {
    if (kSearched && searched) return found_tap[kSearched ? i : 0];
    return kTaps - 1 - i;
  }
  __device__ __forceinline__ void add(std::int64_t c, int t) {
    found[count] = c;
    found_tap[count++] = static_cast<std::int8_t>(t);
  }
};

template <SampleMode kMode, class C, class I>
__device__ __forceinline__ void cells_at(I index, const gm::Axis<C, I>& axis,
                                         AxisCells<kMode>& out) {
  out.first = index;
  if constexpr (kMode == SampleMode::bicubic) {
    const bool edge = index == 0 || index == axis.size - 1;
    if (axis.padding == SamplePadding::zeros) return;
    if (axis.padding == SamplePadding::border && !edge) return;
    out.searched = true;
    out.count = 0;
    if (axis.padding == SamplePadding::border) {
      for (std::int64_t cell = index; cell < index + 4; ++cell)
        for (int j = 0; j < 4; ++j)
          if (gm::cubic_index<C, std::int64_t>(cell, j, axis) == index) out.add(cell, j);
      return;
    }
    // Tap j reads element `index` from two positions of a period.
    const std::int64_t period = gm::reflection_period(axis);
    const std::int64_t mirror = (axis.align ? period : period - 1) - index;
    std::int64_t found[8];
    int count = 0;
    for (int k = 0; k < 8; ++k) {
      const std::int64_t from = (k < 4 ? index : mirror) + 1 - k % 4;
      const std::int64_t cell = (from % period + period) % period;
      int at = 0;
      while (at < count && found[at] < cell) ++at;
      if (at < count && found[at] == cell) continue;
      for (int i = count; i > at; --i) found[i] = found[i - 1];
      found[at] = cell;
      ++count;
    }
    for (int k = 0; k < count; ++k)
      for (int j = 0; j < 4; ++j)
        if (gm::cubic_index<C, std::int64_t>(found[k], j, axis) == index) out.add(found[k], j);
  }
}

// The weight of tap j of a coordinate.
template <SampleMode kMode, class C>
__device__ __forceinline__ C tap_weight(C g, int j, const gm::Axis<C, std::int64_t>& axis) {
  if constexpr (kMode == SampleMode::nearest) {
    return C(1);
  } else if constexpr (kMode == SampleMode::bilinear) {
    const auto t = gm::linear_taps(g, axis);
    return j ? t.upper : t.lower;
  } else {
    C w[4];
    gm::cubic_weights(gm::cubic_taps(g, axis).t, w);
    return j == 0 ? w[0] : j == 1 ? w[1] : j == 2 ? w[2] : w[3];
  }
}

template <class T>
struct GatherCall {
  using I = std::int64_t;
  Image<const T, I> dout;
  Grid<const T> grid;
  Image<T, I> dinput;
  Frame<Compute<T>, I> frame;
  BinCall bins;
  std::int64_t cells[3], across, pixels;
  std::int64_t groups;  // of kGatherChannels channels
  bool accumulate;
  // Elements with many contributions, left to a block each: n · pixels + position.
  std::int64_t* busy;
  unsigned long long* busy_count;
};

inline constexpr int kGatherChannels = 16;

// An element of dinput, and its runs of points.
template <class T, SampleMode kMode, int kDims>
struct Element {
  using C = Compute<T>;
  const GatherCall<T>& a;
  std::int64_t n, x, y, z;
  std::int64_t bin = 0;  // tiled
  int local = 0;         // and the tile's cell that is up and left of the element
  AxisCells<kMode> cells[3];

  __device__ __forceinline__ Element(const GatherCall<T>& call, std::int64_t image, std::int64_t ex,
                                     std::int64_t ey, std::int64_t ez)
      : a(call), n(image), x(ex), y(ey), z(ez) {
    if (a.bins.tiled) {
      constexpr int kWidth = BinLayout::kTileWidth, kHeight = BinLayout::kTileHeight;
      bin = y / kHeight * a.across + x / kWidth;
      local = static_cast<int>(y % kHeight) * (kWidth + 1) + static_cast<int>(x % kWidth);
    }
    cells_at<kMode>(x, a.frame.axis[0], cells[0]);
    cells_at<kMode>(y, a.frame.axis[1], cells[1]);
    if constexpr (kDims == 3) cells_at<kMode>(z, a.frame.axis[2], cells[2]);
  }

  // Calls f(points, count, taps) for each run in order.
  template <class F>
  __device__ __forceinline__ void for_runs(F&& f) const {
    const std::uint32_t* const sorted = a.bins.sorted_of(n);
#pragma unroll 1
    for (int k = 0; k < (kDims == 3 ? cells[2].count : 1); ++k)
#pragma unroll 1
      for (int j = 0; j < cells[1].count; ++j)
#pragma unroll 1
        for (int i = 0; i < cells[0].count; ++i) {
          std::int64_t index = n * a.bins.bins;
          int cell;
          if (a.bins.tiled) {
            index += bin;
            cell = local + j * (BinLayout::kTileWidth + 1) + i;
          } else {
            std::int64_t linear = kDims == 3 ? cells[2].cell(k) * a.cells[1] : 0;
            linear = (linear + cells[1].cell(j)) * a.cells[0] + cells[0].cell(i);
            index += linear / BinLayout::kCellsOfRun;
            cell = static_cast<int>(linear % BinLayout::kCellsOfRun);
          }
          const std::uint32_t* at = a.bins.cell_starts + index * (a.bins.bin_cells + 1) + cell;
          const std::uint32_t from = at[0], to = at[1];
          if (from == to) continue;
          const int taps[3] = {cells[0].tap(i), cells[1].tap(j), kDims == 3 ? cells[2].tap(k) : 0};
          f(sorted + a.bins.starts[index] + from, to - from, taps);
        }
  }
  __device__ __forceinline__ OutputAt at(std::uint32_t point) const {
    return output_at<kDims>(a.frame, point);
  }
  __device__ __forceinline__ C weight(const OutputAt& at, const int (&taps)[3]) const {
    if constexpr (kMode == SampleMode::nearest) {
      return C(1);
    } else {
      C g[3];
      coordinates<kDims>(a.grid, n, at, g);
      C w = tap_weight<kMode>(g[0], taps[0], a.frame.axis[0]) *
            tap_weight<kMode>(g[1], taps[1], a.frame.axis[1]);
      if constexpr (kDims == 3) w = w * tap_weight<kMode>(g[2], taps[2], a.frame.axis[2]);
      return w;
    }
  }
  __device__ __forceinline__ std::int64_t count() const {
    std::int64_t m = 0;
    for_runs([&](const std::uint32_t*, std::uint32_t some, const int(&)[3]) { m += some; });
    return m;
  }
  __device__ __forceinline__ T* out() const {
    return a.dinput.data + n * a.dinput.n + z * a.dinput.z + y * a.dinput.y + x * a.dinput.x;
  }
  __device__ __forceinline__ void store(std::int64_t c, C sum) const {
    T* to = out() + c * a.dinput.c;
    *to = narrow<T>(a.accumulate ? widen(*to) + sum : sum);
  }
};

}  // namespace planck::sample_device
