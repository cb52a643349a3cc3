// dinput for every way of sampling, from points sorted by cell (sort_cells): a thread an element.
//
// The contributions to an element come from a few cells, those of a cell are a run of the sorted
// points. An element with many contributions is summed by the whole block, a warp a chunk.
#pragma once

#include "planck/math/chunked_sum.h"
#include "planck/ops/grid_sample/sort.cuh"

namespace planck::sample_device {

// The cells that reach an element along one axis, and with which tap, ascending.
template <SampleMode kMode>
struct AxisCells {
  // bicubic, border, one element: four cells of four taps.
  static constexpr int kMost = kMode == SampleMode::bicubic    ? 16
                               : kMode == SampleMode::bilinear ? 2
                                                               : 1;
  int count = 0;
  std::int64_t cell[kMost];
  std::int8_t tap[kMost];

  __device__ __forceinline__ void add(std::int64_t c, int t) {
    cell[count] = c;
    tap[count++] = static_cast<std::int8_t>(t);
  }
};

template <SampleMode kMode, class C, class I>
__device__ __forceinline__ void cells_at(I index, const gm::Axis<C, I>& axis,
                                         AxisCells<kMode>& out) {
  out.count = 0;
  if constexpr (kMode == SampleMode::nearest) {
    out.count = 1;
    out.cell[0] = index;
    out.tap[0] = 0;
  } else if constexpr (kMode == SampleMode::bilinear) {
    out.count = 2;
    out.cell[0] = index;
    out.tap[0] = 1;
    out.cell[1] = index + 1;
    out.tap[1] = 0;
  } else if (axis.padding != SamplePadding::reflection) {
    for (std::int64_t cell = index; cell < index + 4; ++cell)
      for (int j = 0; j < 4; ++j)
        if (gm::cubic_index<C, std::int64_t>(cell, j, axis) == index) out.add(cell, j);
  } else {
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
};

inline constexpr int kGatherChannels = 16;

// An element of dinput, and its runs of points.
template <class T, SampleMode kMode, int kDims>
struct Element {
  using C = Compute<T>;
  const GatherCall<T>& a;
  std::int64_t n, bin, x, y, z;
  int local;  // cell of a tile that is up and left of the element
  AxisCells<kMode> cells[3];

  __device__ __forceinline__ Element(const GatherCall<T>& call, std::int64_t image,
                                     std::int64_t which, std::int64_t ex, std::int64_t ey,
                                     std::int64_t ez)
      : a(call), n(image), bin(which), x(ex), y(ey), z(ez) {
    local = static_cast<int>(y % BinLayout::kTileHeight) * (BinLayout::kTileWidth + 1) +
            static_cast<int>(x % BinLayout::kTileWidth);
    cells_at<kMode>(x, a.frame.axis[0], cells[0]);
    cells_at<kMode>(y, a.frame.axis[1], cells[1]);
    cells[2].count = 1;
    cells[2].cell[0] = cells[2].tap[0] = 0;
    if constexpr (kDims == 3) cells_at<kMode>(z, a.frame.axis[2], cells[2]);
  }

  // Calls f(points, count, taps) for each run in order, until it returns false.
  template <class F>
  __device__ __forceinline__ void for_runs(F&& f) const {
    constexpr int kMost = AxisCells<kMode>::kMost, kUnroll = kMost <= 2 ? kMost : 1;
#pragma unroll kUnroll
    for (int k = 0; k < (kDims == 3 ? kMost : 1); ++k)
#pragma unroll kUnroll
      for (int j = 0; j < kMost; ++j)
#pragma unroll kUnroll
        for (int i = 0; i < kMost; ++i) {
          if (kMost > 2 && (j >= cells[1].count || i >= cells[0].count)) break;
          std::int64_t index = n * a.bins.bins;
          int cell;
          if (a.bins.tiled) {
            index += bin;
            cell = local + j * (BinLayout::kTileWidth + 1) + i;
          } else {
            const std::int64_t linear =
                (cells[2].cell[k] * a.cells[1] + cells[1].cell[j]) * a.cells[0] + cells[0].cell[i];
            index += linear / BinLayout::kCellsOfRun;
            cell = static_cast<int>(linear % BinLayout::kCellsOfRun);
          }
          const std::uint32_t* at = a.bins.cell_starts + index * (a.bins.bin_cells + 1) + cell;
          const std::uint32_t from = at[0], to = at[1];
          if (from == to) continue;
          const int taps[3] = {cells[0].tap[i], cells[1].tap[j], cells[2].tap[k]};
          if (!f(a.bins.sorted_of(n) + a.bins.starts[index] + from, to - from, taps)) return;
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
    for_runs([&](const std::uint32_t*, std::uint32_t some, const int(&)[3]) {
      m += some;
      return true;
    });
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

// Up to 64² contributions, by one thread.
template <int kAtOnce, class Element, class C>
__device__ __forceinline__ void sum_alone(const Element& e, std::int64_t c0, int count,
                                          C (&sum)[kAtOnce]) {
  C outer[kAtOnce];
  int i = 0;
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) sum[k] = outer[k] = C(0);
  e.for_runs([&](const std::uint32_t* points, std::uint32_t some, const int(&taps)[3]) {
    for (std::uint32_t s = 0; s < some; ++s, ++i) {
      const auto at = e.at(points[s]);
      const C w = e.weight(at, taps);
      const auto* p = e.a.dout.data + offset_in(e.a.dout, e.n, at) + c0 * e.a.dout.c;
      const bool fresh = i % kSumChunk == 0;
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (k >= count) continue;
        const C v = w * load(p + k * e.a.dout.c);
        if (fresh && i > 0) outer[k] = i == kSumChunk ? sum[k] : outer[k] + sum[k];
        sum[k] = fresh ? v : sum[k] + v;
      }
    }
    return true;
  });
  if (i > kSumChunk) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) sum[k] = outer[k] + sum[k];
  }
}

inline constexpr int kGatherWarps = 16;

template <class C>
struct GatherShared {
  C product[kGatherWarps][kSumChunk][kGatherChannels + 1];
  C chunk[kSumChunk][kGatherChannels];
  std::int64_t count[256];
  int busy[256];
  int busy_count;
  // The runs of the element that the block works on.
  static constexpr int kRuns = 256;
  const std::uint32_t* points[kRuns];
  std::int64_t end[kRuns];  // contributions up to and with this run
  std::int8_t taps[kRuns][3];
};

// One chunk of an element's contributions, by a warp: the sum of channel c0 + lane in lane < 16.
template <class Element, class C>
__device__ C sum_chunk(const Element& e, const GatherShared<C>& s, std::int64_t chunk,
                       std::int64_t m, std::int64_t c0, int channels,
                       C (&product)[kSumChunk][kGatherChannels + 1]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = chunk * kSumChunk;
  const int count = m - first < kSumChunk ? static_cast<int>(m - first) : kSumChunk;
  constexpr int kEach = kSumChunk / 32;
  std::uint32_t point[kEach];
  int run[kEach];
#pragma unroll
  for (int h = 0; h < kEach; ++h) {
    const int i = h * 32 + lane;
    const std::int64_t rank = first + (i < count ? i : count - 1);
    run[h] = 0;
    while (s.end[run[h]] <= rank) ++run[h];
    point[h] = s.points[run[h]][rank - (run[h] > 0 ? s.end[run[h] - 1] : 0)];
  }
#pragma unroll
  for (int h = 0; h < kEach; ++h) {
    const int i = h * 32 + lane;
    const auto at = e.at(point[h]);
    const int taps[3] = {s.taps[run[h]][0], s.taps[run[h]][1], s.taps[run[h]][2]};
    const C w = e.weight(at, taps);
    const auto* p = e.a.dout.data + offset_in(e.a.dout, e.n, at) + c0 * e.a.dout.c;
    if (i < count) {
#pragma unroll
      for (int k = 0; k < kGatherChannels; ++k)
        if (k < channels) product[i][k] = w * load(p + k * e.a.dout.c);
    }
  }
  __syncwarp();
  C sum = 0;
  if (lane < channels) {
    sum = product[0][lane];
#pragma unroll 16
    for (int i = 1; i < count; ++i) sum = sum + product[i][lane];
  }
  __syncwarp();
  return sum;
}

template <class T, SampleMode kMode, int kDims>
__global__ void __launch_bounds__(kGatherWarps * 32)
    gather_elements(const __grid_constant__ GatherCall<T> a) {
  using C = Compute<T>;
  constexpr std::int64_t kAlone = 256;  // contributions
  extern __shared__ __align__(16) unsigned char memory[];
  GatherShared<C>& s = *reinterpret_cast<GatherShared<C>*>(memory);
  wait_for_previous();
  const int tid = static_cast<int>(threadIdx.x), warp = tid / 32, lane = tid % 32;
  const std::int64_t blocks =
      a.bins.tiled ? *a.bins.crowded_count : a.frame.batch * ((a.pixels + 255) / 256);
  const std::int64_t width = a.frame.axis[0].size, height = a.frame.axis[1].size;
  for (std::int64_t unit = blockIdx.x; unit < blocks * a.groups; unit += gridDim.x) {
    const std::int64_t block = unit / a.groups;
    const std::int64_t c0 = (unit - block * a.groups) * kGatherChannels;
    const std::int64_t left = a.frame.channels - c0;
    const int channels = left < kGatherChannels ? static_cast<int>(left) : kGatherChannels;
    std::int64_t n, bin = 0, first = 0;
    if (a.bins.tiled) {
      n = a.bins.crowded[block] / a.bins.bins;
      bin = a.bins.crowded[block] - n * a.bins.bins;
    } else {
      const std::int64_t each = (a.pixels + 255) / 256;
      n = block / each;
      first = (block - n * each) * 256;
    }
    const auto element = [&](int i) {
      std::int64_t x, y, z = 0;
      if (a.bins.tiled) {
        x = bin % a.across * BinLayout::kTileWidth + i % BinLayout::kTileWidth;
        y = bin / a.across * BinLayout::kTileHeight + i / BinLayout::kTileWidth;
      } else {
        const std::int64_t row = (first + i) / width;
        x = first + i - row * width;
        z = row / height;
        y = row - z * height;
      }
      return Element<T, kMode, kDims>(a, n, bin, x, y, z);
    };
    if (tid == 0) s.busy_count = 0;
    __syncthreads();
    if (tid < 256) {
      const Element<T, kMode, kDims> e = element(tid);
      const bool valid = a.bins.tiled ? e.x < width && e.y < height : first + tid < a.pixels;
      if (valid) {
        const std::int64_t m = e.count();
        if (m > kAlone) {
          s.count[tid] = m;
          s.busy[atomicAdd(&s.busy_count, 1)] = tid;
        } else if (m > 0 || !a.accumulate) {
          constexpr int kAtOnce = 8;
          for (int k = 0; k < channels; k += kAtOnce) {
            C sum[kAtOnce];
            sum_alone<kAtOnce>(e, c0 + k, channels - k, sum);
#pragma unroll
            for (int u = 0; u < kAtOnce; ++u)
              if (k + u < channels) e.store(c0 + k + u, sum[u]);
          }
        }
      }
    }
    __syncthreads();
    for (int b = 0; b < s.busy_count; ++b) {
      const int i = s.busy[b];
      const std::int64_t m = s.count[i], chunks = sum_chunks(m);
      const Element<T, kMode, kDims> e = element(i);
      if (tid == 0) {
        int runs = 0;
        std::int64_t end = 0;
        e.for_runs([&](const std::uint32_t* points, std::uint32_t some, const int(&taps)[3]) {
          s.points[runs] = points;
          s.end[runs] = end += some;
          for (int d = 0; d < 3; ++d) s.taps[runs][d] = static_cast<std::int8_t>(taps[d]);
          ++runs;
          return true;
        });
      }
      __syncthreads();
      ChunkedSum<C> total;
      for (std::int64_t base = 0; base < chunks; base += kSumChunk) {
        const int now = chunks - base < kSumChunk ? static_cast<int>(chunks - base) : kSumChunk;
        for (int q = warp; q < now; q += kGatherWarps) {
          const C sum = sum_chunk(e, s, base + q, m, c0, channels, s.product[warp]);
          if (lane < channels) s.chunk[q][lane] = sum;
        }
        __syncthreads();
        if (tid < channels)
          for (int q = 0; q < now; ++q) total.add(s.chunk[q][tid]);
        __syncthreads();
      }
      if (tid < channels) e.store(c0 + tid, total.result());
    }
    __syncthreads();
  }
}

}  // namespace planck::sample_device
