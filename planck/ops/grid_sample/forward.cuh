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

// ---- rows of channels ----

inline constexpr int kRowPoints = 64, kSlab = 64;  // points and channels of a block

template <class T, class I>
struct RowsCall {
  Image<const T, I> input;  // c = 1
  Grid<const T> grid;
  Image<T, I> output;
  Frame<Compute<T>, I> frame;
  std::int64_t tiles, slabs;
};

// Unit → tile, slab, image; small numbers in all but extreme cases.
struct RowUnit {
  std::int64_t n, c0, first;
};
__device__ __forceinline__ RowUnit row_unit(std::int64_t unit, std::int64_t units,
                                            std::int64_t tiles, std::int64_t slabs) {
  if (units < kDivisorLimit) {
    const auto u = static_cast<std::uint32_t>(unit), t = static_cast<std::uint32_t>(tiles);
    const std::uint32_t rest = u / t,
                        n = slabs == 1 ? rest : rest / static_cast<std::uint32_t>(slabs);
    return {n, std::int64_t{rest - n * static_cast<std::uint32_t>(slabs)} * kSlab,
            std::int64_t{u - rest * t} * kRowPoints};
  }
  const std::int64_t rest = unit / tiles, n = rest / slabs;
  return {n, (rest - n * slabs) * kSlab, (unit - rest * tiles) * kRowPoints};
}

// What each lane needs of a point.
template <class C, class I>
struct RowPoint {
  C weight[4];
  I offset[4];  // −1: outside
};

template <class T, class I, bool kRows>
struct RowsShared {
  static constexpr int kPitch = kRowPoints + 4 / static_cast<int>(sizeof(T)) + (sizeof(T) > 4);
  T tile[kRows ? 1 : kSlab * kPitch];
  RowPoint<Compute<T>, I> points[kRowPoints];
  std::int64_t out_at[kRowPoints];
};

// Units from `unit` on, `stride` apart. kRows: the output's channels lie together as well.
template <bool kRows, class T, class I>
__device__ __forceinline__ void sample_rows(const RowsCall<T, I>& a, RowsShared<T, I, kRows>& s,
                                            std::int64_t unit, std::int64_t stride) {
  using C = Compute<T>;
  constexpr int kVector = 16 / static_cast<int>(sizeof(T)), kLanes = kSlab / kVector;
  constexpr int kGroups = kThreads / kLanes;
  constexpr int kPitch = RowsShared<T, I, kRows>::kPitch;
  using Row = Vector<T, kVector>;
  const int tid = static_cast<int>(threadIdx.x), lane = tid % kLanes, group = tid / kLanes;
  const std::int64_t units = a.tiles * a.slabs * a.frame.batch;
  for (; unit < units; unit += stride) {
    const auto [n, c0, first] = row_unit(unit, units, a.tiles, a.slabs);
    const int here =
        a.frame.points - first < kRowPoints ? static_cast<int>(a.frame.points - first) : kRowPoints;
    if (tid < here) {
      const OutputAt at = output_at<2>(a.frame, first + tid);
      C g[3];
      coordinates<2>(a.grid, n, at, g);
      LinearPoint<2, C, I> point(g, a.frame);
      point.prepare(a.input);
      RowPoint<C, I> r;
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        r.weight[t] = point.weight(t);
        r.offset[t] = point.inside >> t & 1
                          ? point.offset + (t & 1 ? a.input.x : I(0)) + (t & 2 ? a.input.y : I(0))
                          : I(-1);
      }
      s.points[tid] = r;
      s.out_at[tid] = offset_in(a.output, n, at);
    }
    __syncthreads();
    const std::int64_t c = c0 + lane * kVector;
    const bool some = c < a.frame.channels;
    const T* in = a.input.data + n * a.input.n + c;
#pragma unroll 2
    for (int k = 0; k < kRowPoints / kGroups; ++k) {
      const int local = k * kGroups + group;
      if (local >= here || !some) continue;
      const RowPoint<C, I> r = s.points[local];
      Row v[4];
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        uint4 word = {};
        if (r.offset[t] >= 0) word = __ldg(reinterpret_cast<const uint4*>(in + r.offset[t]));
        v[t] = *reinterpret_cast<const Row*>(&word);
      }
      Row sum;
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        sum.v[e] =
            narrow<T>(gm::bilinear(r.weight[0], widen(v[0].v[e]), r.weight[1], widen(v[1].v[e]),
                                   r.weight[2], widen(v[2].v[e]), r.weight[3], widen(v[3].v[e])));
      if constexpr (kRows) {
        *reinterpret_cast<Row*>(a.output.data + s.out_at[local] + c) = sum;
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e) s.tile[(lane * kVector + e) * kPitch + local] = sum.v[e];
      }
    }
    __syncthreads();
    if constexpr (!kRows) {
      const int local = tid % kRowPoints;
      if (local < here) {
        const std::int64_t left = a.frame.channels - c0;
        const int k0 = tid / kRowPoints;
        T* out = a.output.data + s.out_at[local] + (c0 + k0) * a.output.c;
        const std::int64_t step = kThreads / kRowPoints * a.output.c;
        if (left >= kSlab) {
#pragma unroll
          for (int k = k0; k < kSlab; k += kThreads / kRowPoints) {
            *out = s.tile[k * kPitch + local];
            out += step;
          }
        } else {
          for (int k = k0; k < left; k += kThreads / kRowPoints) {
            *out = s.tile[k * kPitch + local];
            out += step;
          }
        }
      }
      __syncthreads();
    }
  }
}

template <class T, class I, bool kRows>
__global__ void __launch_bounds__(kThreads) forward_rows(const __grid_constant__ RowsCall<T, I> a) {
  __shared__ __align__(16) RowsShared<T, I, kRows> s;
  sample_rows<kRows>(a, s, blockIdx.x, gridDim.x);
}

// ---- dense planes ----

// Input and output with rows next to each other, a dense grid: what training uses most. Where a
// copy of the input was made, because the grid looks scattered, the block samples its rows instead.
template <class T>
struct PlanesCall {
  const T* input;
  const T* grid;
  T* output;
  std::int64_t input_n, input_c, grid_n, output_n, output_c;
  std::int32_t input_y, width, height;  // width and height: of the output
  Divisor across;
  std::int64_t batch, channels;
  gm::Axis<Compute<T>, std::int32_t> x, y;
  const std::int32_t* scattered;
  RowsCall<T, std::int32_t> rows;
};

template <class T, bool kZeros, int kChannels, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    forward_planes(const __grid_constant__ PlanesCall<T> a) {
  using C = Compute<T>;
  __shared__ __align__(16) RowsShared<T, std::int32_t, false> s;
  const int tid = static_cast<int>(threadIdx.x);
  const int down = static_cast<int>(a.across.quotient(blockIdx.x));
  const int along = static_cast<int>(blockIdx.x) - down * static_cast<int>(a.across.value);
  const int ox = along * 32 + tid % 32, oy = down * 8 + tid / 32;
  const bool valid = ox < a.width && oy < a.height;
  const int p = min(oy, a.height - 1) * a.width + min(ox, a.width - 1);
  for (std::int64_t n = blockIdx.z; n < a.batch; n += gridDim.z) {
    const auto g = *reinterpret_cast<const Vector<T, 2>*>(a.grid + n * a.grid_n + 2 * p);
    if (a.scattered != nullptr && *a.scattered != 0) {
      const std::int64_t blocks = std::int64_t{gridDim.x} * gridDim.y * gridDim.z;
      const std::int64_t block =
          (std::int64_t{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
      sample_rows<false>(a.rows, s, block, blocks);
      return;
    }
    const auto tx = taps_of<kZeros>(widen(g.v[0]), a.x), ty = taps_of<kZeros>(widen(g.v[1]), a.y);
    const C w00 = tx.lower * ty.lower, w01 = tx.upper * ty.lower;
    const C w10 = tx.lower * ty.upper, w11 = tx.upper * ty.upper;
    const bool x0 = gm::inside(tx.base, a.x.size), x1 = gm::inside(tx.base + 1, a.x.size);
    const bool y0 = gm::inside(ty.base, a.y.size), y1 = gm::inside(ty.base + 1, a.y.size);
    const bool inner = __all_sync(~0u, x0 && x1 && y0 && y1);
    for (std::int64_t c0 = std::int64_t{blockIdx.y} * kChannels; c0 < a.channels;
         c0 += std::int64_t{gridDim.y} * kChannels) {
      const int count = static_cast<int>(min(a.channels - c0, std::int64_t{kChannels}));
      const T* q0 = a.input + n * a.input_n + c0 * a.input_c + (ty.base * a.input_y + tx.base);
      const T* q1 = q0 + a.input_y;
      T* out = a.output + n * a.output_n + c0 * a.output_c + p;
      constexpr int kAtOnce = 4;
      int k = 0;
      if (inner) {
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
            const T r =
                narrow<T>(gm::bilinear(w00, v[u][0], w01, v[u][1], w10, v[u][2], w11, v[u][3]));
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
  }
}

// ---- a copy whose channels lie together ----

template <class T, class I>
struct StageCall {
  Image<const T, I> from;
  T* to;  // [N, pixels, C]
  std::int64_t batch, channels, pixels, tiles, slabs;
  std::int64_t width;  // of a row of pixels
  bool joined;         // pixels are one stride apart, from row to row as well
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
    const auto [n, c0, first] = row_unit(unit, units, a.tiles, a.slabs);
    const std::int64_t p = first + local, left = a.channels - c0;
    if (p < a.pixels) {
      const std::int64_t y = a.joined ? 0 : p / a.width, x = p - y * a.width;
      constexpr int kStep = kThreads / kRowPoints, kEach = kSlab / kStep;
      const int k0 = static_cast<int>(threadIdx.x) / kRowPoints;
      const T* in = a.from.data + n * a.from.n + y * static_cast<std::int64_t>(a.from.y) +
                    x * static_cast<std::int64_t>(a.from.x) +
                    (c0 + k0) * static_cast<std::int64_t>(a.from.c);
      const std::int64_t step = kStep * static_cast<std::int64_t>(a.from.c);
      T v[kEach];
      if (left >= kSlab) {
#pragma unroll
        for (int k = 0; k < kEach; ++k) {
          v[k] = *in;
          in += step;
        }
      } else {
#pragma unroll
        for (int k = 0; k < kEach; ++k)
          if (k0 + k * kStep < left) v[k] = in[k * step];
      }
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
