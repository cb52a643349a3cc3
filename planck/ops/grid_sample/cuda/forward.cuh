// Forward kernels: one thread per point and a few channels, or, where the channels of an element
// lie together, a few lanes per point and 16 bytes of channels per lane.
//
// Versions tried on an H200, ms, N16 C64 256^2, affine / random grid:   f32             f16
//   one thread per point and 4 channels, any strides;
//   a copy by 132 · 8 blocks                                           0.31 / 0.54
//   8 channels, neighbours along x together;
//   weights of a point made once                                       0.21 / 0.43
//   dense planes by themselves, rows of the copy in the same launch    0.20 / 0.35
//   8 blocks per multiprocessor in place of 6                          0.19 / 0.35
//   planes without shared memory, rows by themselves;
//   blocks that walk, whose warps drift apart                          0.23 / 0.35
//   rows with more blocks than fit at once                                    0.39
//   boxes by the copy engine (forward.boxes.cuh); the 32,768 blocks
//   of the planes took 0.02 to find that they are not meant           0.176 / 0.342   0.112 / 0.235
//   a list of what boxes cannot serve                                 0.180 / 0.345
//   the list worked off by the kernel for rows, kernels that start
//   before the last one ends, more and smaller boxes                  0.161 / 0.341   0.108 / 0.235
//   coordinates loaded before it is known which kernel is meant       0.160 / 0.449
// f16 before boxes: 0.191 / 0.255. Channels-last input: 0.14 / 0.16. Slabs of 32 channels in place
// of 64: 0.19 / 0.21.
#pragma once

#include "planck/ops/grid_sample/cuda/rows.cuh"

namespace planck::sample_device {

template <class T, class I>
struct ForwardCall {
  Image<const T, I> input;
  Grid<const T> grid;
  Image<T, I> output;
  Frame<Compute<T>, I> frame;
  // A tile of 256 points: 1 << log_width along x, the rest along rows.
  int log_width;
  Divisor across;  // tiles along x
};

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

// ---- dense planes ----

// Input and output with rows next to each other, a dense grid: what training uses most. No shared
// memory: the first-level cache is all for the overlap of what threads read.
template <class T>
struct PlanesCall {
  const T* input;
  const T* grid;
  T* output;
  std::int64_t input_n, input_c, grid_n, output_n, output_c;
  std::int32_t input_y, width, height;  // width and height: of the output
  std::int32_t channels;
  Divisor across, tiles, groups;  // tiles of 32 × 8 points along x, of an image; of channels
  std::uint32_t units;            // tiles · groups · batch
  gm::Axis<Compute<T>, std::int32_t> x, y;
  const Neighbours* neighbours;
  bool when_scattered;
};

// Channels c0 … c0 + count of position p, by whole warps.
template <bool kZeros, class T>
__device__ __forceinline__ void sample_planes(const PlanesCall<T>& a, std::int64_t n, int c0,
                                              int count, int p, bool valid) {
  using C = Compute<T>;
  const auto g = *reinterpret_cast<const Vector<T, 2>*>(a.grid + n * a.grid_n + 2 * p);
  const auto tx = taps_of<kZeros>(widen(g.v[0]), a.x), ty = taps_of<kZeros>(widen(g.v[1]), a.y);
  const C w00 = tx.lower * ty.lower, w01 = tx.upper * ty.lower;
  const C w10 = tx.lower * ty.upper, w11 = tx.upper * ty.upper;
  const bool x0 = gm::inside(tx.base, a.x.size), x1 = gm::inside(tx.base + 1, a.x.size);
  const bool y0 = gm::inside(ty.base, a.y.size), y1 = gm::inside(ty.base + 1, a.y.size);
  const T* q0 = a.input + n * a.input_n + c0 * a.input_c + (ty.base * a.input_y + tx.base);
  const T* q1 = q0 + a.input_y;
  T* out = a.output + n * a.output_n + c0 * a.output_c + p;
  constexpr int kAtOnce = 4;
  int k = 0;
  if (__all_sync(~0u, x0 && x1 && y0 && y1)) {
#pragma unroll 1
    for (; k + kAtOnce <= count; k += kAtOnce) {
      C v[kAtOnce][4];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        v[u][0] = load(q0);
        v[u][1] = load(q0 + 1);
        v[u][2] = load(q1);
        v[u][3] = load(q1 + 1);
        q0 += a.input_c;
        q1 += a.input_c;
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const T r = narrow<T>(gm::bilinear(w00, v[u][0], w01, v[u][1], w10, v[u][2], w11, v[u][3]));
        if (valid) *out = r;
        out += a.output_c;
      }
    }
  }
#pragma unroll 1
  for (; k < count; ++k) {
    const C v00 = y0 && x0 ? load(q0) : C(0), v01 = y0 && x1 ? load(q0 + 1) : C(0);
    const C v10 = y1 && x0 ? load(q1) : C(0), v11 = y1 && x1 ? load(q1 + 1) : C(0);
    const T r = narrow<T>(gm::bilinear(w00, v00, w01, v01, w10, v10, w11, v11));
    if (valid) *out = r;
    q0 += a.input_c;
    q1 += a.input_c;
    out += a.output_c;
  }
}

template <class T, bool kZeros, int kChannels, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    forward_planes(const __grid_constant__ PlanesCall<T> a) {
  wait_for_previous();
  if (is_not_meant(a)) return;
  const int tid = static_cast<int>(threadIdx.x);
  for (std::uint32_t unit = blockIdx.x; unit < a.units; unit += gridDim.x) {
    const std::uint32_t rest = a.tiles.quotient(unit), tile = unit - rest * a.tiles.value;
    const std::uint32_t n = a.groups.quotient(rest);
    const int c0 = static_cast<int>(rest - n * a.groups.value) * kChannels;
    const int down = static_cast<int>(a.across.quotient(tile));
    const int along = static_cast<int>(tile) - down * static_cast<int>(a.across.value);
    const int ox = along * 32 + tid % 32, oy = down * 8 + tid / 32;
    const int p = min(oy, a.height - 1) * a.width + min(ox, a.width - 1);
    sample_planes<kZeros>(a, n, c0, min(a.channels - c0, kChannels), p,
                          ox < a.width && oy < a.height);
  }
}

}  // namespace planck::sample_device
