// Forward kernels: a thread a point and a few channels, or, where the channels of an element lie
// together, a few lanes a point and 16 bytes of channels a lane.
#pragma once

#include "planck/ops/grid_sample/points.cuh"

namespace planck::sample_device {

inline constexpr int kThreads = 256;

template <class T, class I>
struct ForwardCall {
  Image<const T, I> input;
  Grid<const T> grid;
  Image<T, I> output;
  Frame<Compute<T>, I> frame;
  // A tile of 256 points: 1 << log_width along x, the rest along rows.
  int log_width;
  Divisor across;                 // tiles along x
  const std::int32_t* scattered;  // null, or whether neighbours read far apart: then this kernel
  bool when_scattered;            // runs only if so, or only if not
};

template <class Call>
__device__ __forceinline__ bool is_not_meant(const Call& a) {
  return a.scattered != nullptr && (*a.scattered != 0) != a.when_scattered;
}

// Where a thread's point is; threads beyond the output repeat its last column or row.
struct TilePoint {
  OutputAt at;
  bool valid;
};
template <int kDims, class Call>
__device__ __forceinline__ TilePoint tile_point(const Call& a) {
  const std::uint32_t tile = blockIdx.x, down = a.across.quotient(tile);
  const std::uint32_t along = tile - down * a.across.value;
  const std::int64_t width = a.frame.out[2], rows = a.frame.out[0] * a.frame.out[1];
  const int tx = static_cast<int>(threadIdx.x) & ((1 << a.log_width) - 1);
  const int ty = static_cast<int>(threadIdx.x) >> a.log_width;
  std::int64_t x = (std::int64_t{along} << a.log_width) + tx;
  std::int64_t row = static_cast<std::int64_t>(down) * (kThreads >> a.log_width) + ty;
  const bool valid = x < width && row < rows;
  x = x < width ? x : width - 1;
  row = row < rows ? row : rows - 1;
  const std::int64_t z = kDims == 3 ? row / a.frame.out[1] : 0;
  return {{z, row - z * a.frame.out[1], x}, valid};
}

template <bool kInner, int kChannels, class Point, class T, class I>
__device__ __forceinline__ void sample_channels(const Point& point, const T* in, I in_step, T* out,
                                                I out_step, int count, bool valid) {
  constexpr int kAtOnce = Point::kTaps > 4 ? 2 : 4;
  int k = 0;
#pragma unroll 1
  for (; k + kAtOnce <= count; k += kAtOnce) {
    T v[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if constexpr (Point::kHasSlopes)
        v[u] = narrow<T>(point.template sample<kInner>(in + u * in_step));
      else
        v[u] = point.template copy<kInner>(in + u * in_step);
    }
    if (valid) {
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) out[u * out_step] = v[u];
    }
    in += kAtOnce * in_step;
    out += kAtOnce * out_step;
  }
#pragma unroll 1
  for (; k < count; ++k) {
    T v;
    if constexpr (Point::kHasSlopes)
      v = narrow<T>(point.template sample<kInner>(in));
    else
      v = point.template copy<kInner>(in);
    if (valid) *out = v;
    in += in_step;
    out += out_step;
  }
}

template <class T, SampleMode kMode, int kDims, class I, int kChannels, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    forward_direct(const __grid_constant__ ForwardCall<T, I> a) {
  using C = Compute<T>;
  using Point = typename PointOf<kMode, kDims, C, I>::type;
  if (is_not_meant(a)) return;
  const TilePoint tp = tile_point<kDims>(a);
  const std::int64_t out_at = offset_in(a.output, 0, tp.at);
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    C g[3];
    coordinates<kDims>(a.grid, n, tp.at, g);
    Point point(g, a.frame);
    point.prepare(a.input);
    const bool inner = __all_sync(~0u, point.inner());
    for (std::int64_t c0 = std::int64_t{blockIdx.y} * kChannels; c0 < a.frame.channels;
         c0 += std::int64_t{gridDim.y} * kChannels) {
      const std::int64_t left = a.frame.channels - c0;
      const int count = left < kChannels ? static_cast<int>(left) : kChannels;
      const T* in = a.input.data + (n * a.input.n + c0 * a.input.c);
      T* out = a.output.data + (n * a.output.n + c0 * a.output.c + out_at);
      if (inner)
        sample_channels<true, kChannels>(point, in, a.input.c, out, a.output.c, count, tp.valid);
      else
        sample_channels<false, kChannels>(point, in, a.input.c, out, a.output.c, count, tp.valid);
    }
  }
}

// ---- rows of channels ----

inline constexpr int kRowPoints = 64, kSlab = 64;  // points and channels of a block

template <class T, class I>
struct RowsCall {
  Image<const T, I> input;  // c = 1
  Grid<const T> grid;
  Image<T, I> output;
  Frame<Compute<T>, I> frame;
  std::int64_t tiles, slabs;
  const std::int32_t* scattered;
  bool when_scattered;
};

// kRows: the output's channels lie together as well.
template <class T, class I, bool kRows>
__global__ void __launch_bounds__(kThreads) forward_rows(const __grid_constant__ RowsCall<T, I> a) {
  using C = Compute<T>;
  constexpr int kVector = 16 / static_cast<int>(sizeof(T)), kLanes = kSlab / kVector;
  constexpr int kGroups = kThreads / kLanes;
  using Row = Vector<T, kVector>;
  __shared__ T tile[kRows ? 1 : kSlab * (kRowPoints + 4 / sizeof(T) + (sizeof(T) > 4))];
  constexpr int kPitch = kRowPoints + 4 / static_cast<int>(sizeof(T)) + (sizeof(T) > 4);
  if (is_not_meant(a)) return;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t units = a.tiles * a.slabs * a.frame.batch;
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const std::int64_t rest = unit / a.tiles, first = (unit - rest * a.tiles) * kRowPoints;
    const std::int64_t n = rest / a.slabs, c0 = (rest - n * a.slabs) * kSlab;
    const std::int64_t c = c0 + lane * kVector;
    const bool some = c < a.frame.channels;
    const T* in = a.input.data + n * a.input.n + c;
#pragma unroll 2
    for (int k = 0; k < kRowPoints / kGroups; ++k) {
      const int local = k * kGroups + group;
      const std::int64_t p = first + local;
      const bool valid = p < a.frame.points;
      const OutputAt at = output_at<2>(a.frame, valid ? p : a.frame.points - 1);
      C g[3];
      coordinates<2>(a.grid, n, at, g);
      LinearPoint<2, C, I> point(g, a.frame);
      point.prepare(a.input);
      Row v[4];
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const I to = point.offset + (t & 1 ? a.input.x : I(0)) + (t & 2 ? a.input.y : I(0));
        if ((point.inside >> t & 1) && some) {
          const uint4 word = __ldg(reinterpret_cast<const uint4*>(in + to));
          v[t] = *reinterpret_cast<const Row*>(&word);
        } else {
          const uint4 word = {};
          v[t] = *reinterpret_cast<const Row*>(&word);
        }
      }
      Row r;
      const C w0 = point.weight(0), w1 = point.weight(1), w2 = point.weight(2),
              w3 = point.weight(3);
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        r.v[e] = narrow<T>(gm::bilinear(w0, widen(v[0].v[e]), w1, widen(v[1].v[e]), w2,
                                        widen(v[2].v[e]), w3, widen(v[3].v[e])));
      if constexpr (kRows) {
        if (valid && some)
          *reinterpret_cast<Row*>(a.output.data + offset_in(a.output, n, at) + c) = r;
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e) tile[(lane * kVector + e) * kPitch + local] = r.v[e];
      }
    }
    if constexpr (!kRows) {
      __syncthreads();
      const int local = static_cast<int>(threadIdx.x) % kRowPoints;
      const std::int64_t p = first + local;
      if (p < a.frame.points) {
        T* out = a.output.data + offset_in(a.output, n, output_at<2>(a.frame, p));
        const std::int64_t left = a.frame.channels - c0;
#pragma unroll 4
        for (int k = static_cast<int>(threadIdx.x) / kRowPoints; k < kSlab;
             k += kThreads / kRowPoints)
          if (k < left) out[(c0 + k) * a.output.c] = tile[k * kPitch + local];
      }
      __syncthreads();
    }
  }
}

// ---- a copy whose channels lie together ----

template <class T, class I>
struct StageCall {
  Image<const T, I> from;
  T* to;  // [N, pixels, C]
  std::int64_t batch, channels, pixels, tiles, slabs;
  std::int64_t width;  // of a row of pixels
  // Whether it is worth it: looks at some neighbours of the grid. Block 0 leaves the answer.
  Grid<const T> grid;
  Frame<Compute<T>, I> frame;
  std::int32_t* scattered;
};

// Runs of 32 neighbouring points, evenly spread: scattered where a quarter of the neighbours are
// more than four elements apart.
template <class T, class I>
__device__ bool looks_scattered(const StageCall<T, I>& a) {
  using C = Compute<T>;
  constexpr int kRuns = 16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t total = a.frame.batch * a.frame.points;
  int far = 0;
  for (int run = static_cast<int>(threadIdx.x) / 32; run < kRuns; run += kThreads / 32) {
    std::int64_t i = total / kRuns * run + lane;
    if (i >= total) i = total - 1;
    const std::int64_t n = i / a.frame.points;
    C g[3];
    coordinates<2>(a.grid, n, output_at<2>(a.frame, i - n * a.frame.points), g);
    const C x = gm::source_position(g[0], a.frame.axis[0]).s;
    const C y = gm::source_position(g[1], a.frame.axis[1]).s;
    const C dx = x - __shfl_up_sync(~0u, x, 1), dy = y - __shfl_up_sync(~0u, y, 1);
    const bool near = dx < C(4) && dx > C(-4) && dy < C(4) && dy > C(-4);
    far += lane > 0 && !near;
  }
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, far);
  __syncthreads();
  return count > kRuns * 8;
}

template <class T, class I>
__global__ void __launch_bounds__(kThreads) stage_rows(const __grid_constant__ StageCall<T, I> a) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T)), kLanes = kSlab / kVector;
  constexpr int kPitch = kRowPoints + 4 / static_cast<int>(sizeof(T)) + (sizeof(T) > 4);
  using Row = Vector<T, kVector>;
  __shared__ T tile[kSlab * kPitch];
  if (a.scattered != nullptr) {
    const bool scattered = looks_scattered(a);
    if (blockIdx.x == 0 && threadIdx.x == 0) *a.scattered = scattered;
    if (!scattered) return;
  }
  const std::int64_t units = a.tiles * a.slabs * a.batch;
  const int local = static_cast<int>(threadIdx.x) % kRowPoints;
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const std::int64_t rest = unit / a.tiles, first = (unit - rest * a.tiles) * kRowPoints;
    const std::int64_t n = rest / a.slabs, c0 = (rest - n * a.slabs) * kSlab;
    const std::int64_t p = first + local, left = a.channels - c0;
    if (p < a.pixels) {
      const std::int64_t y = p / a.width, x = p - y * a.width;
      const T* in = a.from.data + n * a.from.n + y * static_cast<std::int64_t>(a.from.y) +
                    x * static_cast<std::int64_t>(a.from.x);
      constexpr int kStep = kThreads / kRowPoints, kEach = kSlab / kStep;
      T v[kEach];
      const int k0 = static_cast<int>(threadIdx.x) / kRowPoints;
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        if (k0 + k * kStep < left) v[k] = in[(c0 + k0 + k * kStep) * a.from.c];
#pragma unroll
      for (int k = 0; k < kEach; ++k) tile[(k0 + k * kStep) * kPitch + local] = v[k];
    }
    __syncthreads();
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kRowPoints * kLanes; i += kThreads) {
      const int q = i / kLanes, lane = i % kLanes;
      if (first + q >= a.pixels || lane * kVector >= left) continue;
      Row r;
#pragma unroll
      for (int e = 0; e < kVector; ++e) r.v[e] = tile[(lane * kVector + e) * kPitch + q];
      *reinterpret_cast<Row*>(a.to + (n * a.pixels + first + q) * a.channels + c0 +
                              lane * kVector) = r;
    }
    __syncthreads();
  }
}

}  // namespace planck::sample_device
