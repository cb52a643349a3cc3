// dinput for every way of sampling, from points sorted by cell (sort_cells): one thread per element
// and some channels. An element with many contributions is summed by a whole block, one warp per
// chunk.
//
// Versions tried on an H200, ms, f32. nearest and bicubic: N16 C64 256^2 affine. 3-D: N4 C16 64^3
// affine / random. crowded: all points of N16 C64 256^2 on one element.
//                                                            nearest  bicubic  3-D          crowded
//   both in one kernel of 512 threads, 8 channels at a time     0.96     12.1  1.63 / 4.16     2.56
//   threads by themselves, 16 channels; blocks for the rest     0.39      5.3  0.72 / 1.20     1.02
#pragma once

#include "planck/math/chunked_sum.h"
#include "planck/ops/grid_sample/cuda/gather.cells.cuh"

namespace planck::sample_device {

// The sum of up to BinLayout::kAlone contributions, of kChannels channels from c0 on. kLong: there
// may be more than one chunk. −0 is what leaves every number as it is when added to it.
template <bool kLong, int kChannels, class Element, class C>
__device__ __forceinline__ void sum_alone(const Element& e, std::int64_t c0, int channels,
                                          C (&sum)[kChannels]) {
  C outer[kLong ? kChannels : 1];
  int i = 0;
#pragma unroll
  for (int k = 0; k < kChannels; ++k) sum[k] = C(-0.0);
#pragma unroll
  for (int k = 0; k < (kLong ? kChannels : 1); ++k) outer[k] = C(-0.0);
  e.for_runs([&](const std::uint32_t* points, std::uint32_t some, const int(&taps)[3]) {
#pragma unroll 1
    for (std::uint32_t s = 0; s < some; ++s, ++i) {
      const auto at = e.at(points[s]);
      const auto* p = e.a.dout.data + offset_in(e.a.dout, e.n, at) + c0 * e.a.dout.c;
      C v[kChannels];
#pragma unroll
      for (int k = 0; k < kChannels; ++k) v[k] = k < channels ? load(p + k * e.a.dout.c) : C(0);
      const C w = e.weight(at, taps);
      if (kLong && i > 0 && i % kSumChunk == 0) {
#pragma unroll
        for (int k = 0; k < kChannels; ++k) {
          outer[kLong ? k : 0] = outer[kLong ? k : 0] + sum[k];
          sum[k] = C(-0.0);
        }
      }
#pragma unroll
      for (int k = 0; k < kChannels; ++k) sum[k] = sum[k] + w * v[k];
    }
  });
#pragma unroll
  for (int k = 0; k < kChannels; ++k) {
    if (kLong) sum[k] = outer[kLong ? k : 0] + sum[k];
    if (i == 0) sum[k] = C(0);
  }
}

// Position i of an image.
template <class T, SampleMode kMode, int kDims>
__device__ __forceinline__ Element<T, kMode, kDims> element_at(const GatherCall<T>& a,
                                                               std::int64_t n, std::int64_t i) {
  const std::int64_t width = a.frame.axis[0].size, height = a.frame.axis[1].size;
  std::int64_t row, z = 0;
  if (a.pixels < kDivisorLimit) {
    row = static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(width);
    if (kDims == 3) z = static_cast<std::uint32_t>(row) / static_cast<std::uint32_t>(height);
  } else {
    row = i / width;
    if (kDims == 3) z = row / height;
  }
  return {a, n, i - row * width, row - z * height, z};
}

template <class T, SampleMode kMode, int kDims>
__global__ void __launch_bounds__(256) gather_elements(const __grid_constant__ GatherCall<T> a) {
  using C = Compute<T>;
  wait_for_previous();
  const int tid = static_cast<int>(threadIdx.x);
  const std::int64_t width = a.frame.axis[0].size, height = a.frame.axis[1].size;
  const std::int64_t each = (a.pixels + 255) / 256;
  const std::int64_t blocks = a.bins.tiled ? *a.bins.crowded_count : a.frame.batch * each;
  for (std::int64_t unit = blockIdx.x; unit < blocks * a.groups; unit += gridDim.x) {
    const std::int64_t block = unit / a.groups;
    const std::int64_t c0 = (unit - block * a.groups) * kGatherChannels;
    const std::int64_t left = a.frame.channels - c0;
    const int channels = left < kGatherChannels ? static_cast<int>(left) : kGatherChannels;
    std::int64_t n, position;
    bool valid;
    if (a.bins.tiled) {
      n = a.bins.crowded[block] / a.bins.bins;
      const std::int64_t bin = a.bins.crowded[block] - n * a.bins.bins, down = bin / a.across;
      const std::int64_t x =
          (bin - down * a.across) * BinLayout::kTileWidth + tid % BinLayout::kTileWidth;
      const std::int64_t y = down * BinLayout::kTileHeight + tid / BinLayout::kTileWidth;
      valid = x < width && y < height;
      position = y * width + x;
    } else {
      n = block / each;
      position = (block - n * each) * 256 + tid;
      valid = position < a.pixels;
    }
    if (!valid) continue;
    const auto e = element_at<T, kMode, kDims>(a, n, position);
    const std::int64_t m = e.count();
    if (m > BinLayout::kAlone) {
      if (c0 == 0) a.busy[atomicAdd(a.busy_count, 1ull)] = n * a.pixels + position;
    } else if (m > 0 || !a.accumulate) {
      C sum[kGatherChannels];
      if (m <= kSumChunk)
        sum_alone<false>(e, c0, channels, sum);
      else
        sum_alone<true>(e, c0, channels, sum);
#pragma unroll
      for (int k = 0; k < kGatherChannels; ++k)
        if (k < channels) e.store(c0 + k, sum[k]);
    }
  }
}

// ---- elements with many contributions ----

inline constexpr int kGatherWarps = 16;

template <class C>
struct GatherShared {
  C product[kGatherWarps][kSumChunk][kGatherChannels + 1];
  C chunk[kSumChunk][kGatherChannels];
  static constexpr int kRuns = 256;  // of an element
  const std::uint32_t* points[kRuns];
  std::int64_t end[kRuns];  // contributions up to and with this run
  std::int8_t taps[kRuns][3];
  int runs;
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
    gather_busy(const __grid_constant__ GatherCall<T> a) {
  using C = Compute<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  GatherShared<C>& s = *reinterpret_cast<GatherShared<C>*>(memory);
  wait_for_previous();
  const int tid = static_cast<int>(threadIdx.x), warp = tid / 32, lane = tid % 32;
  const auto busy = static_cast<std::int64_t>(*a.busy_count);
  for (std::int64_t unit = blockIdx.x; unit < busy * a.groups; unit += gridDim.x) {
    const std::int64_t which = unit / a.groups, n = a.busy[which] / a.pixels;
    const std::int64_t c0 = (unit - which * a.groups) * kGatherChannels;
    const std::int64_t left = a.frame.channels - c0;
    const int channels = left < kGatherChannels ? static_cast<int>(left) : kGatherChannels;
    const auto e = element_at<T, kMode, kDims>(a, n, a.busy[which] - n * a.pixels);
    if (tid == 0) {
      int runs = 0;
      std::int64_t end = 0;
      e.for_runs([&](const std::uint32_t* points, std::uint32_t some, const int(&taps)[3]) {
        s.points[runs] = points;
        s.end[runs] = end += some;
        for (int d = 0; d < 3; ++d) s.taps[runs][d] = static_cast<std::int8_t>(taps[d]);
        ++runs;
      });
      s.runs = runs;
    }
    __syncthreads();
    const std::int64_t m = s.end[s.runs - 1], chunks = sum_chunks(m);
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
}

}  // namespace planck::sample_device
