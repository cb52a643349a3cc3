// 2-D bilinear sampling where the channels of an element lie together: a few lanes per point, 16
// bytes of channels per lane. And the copy that brings them together, made where the grid looks
// scattered.
#pragma once

#include "planck/ops/grid_sample/cuda/points.cuh"

namespace planck::sample_device {

inline constexpr int kThreads = 256;

// ---- rows of channels ----

inline constexpr int kRowPoints = 64;  // points, or elements, of a block
inline constexpr int kSlab = 64;       // and its channels
inline constexpr int kRowBlocks = 6;   // of forward_rows on a multiprocessor

template <class T, class I>
struct RowsCall {
  Image<const T, I> input;  // c = 1
  Grid<const T> grid;
  Image<T, I> output;
  Frame<Compute<T>, I> frame;
  std::int64_t tiles, slabs;
  const Neighbours* neighbours = nullptr;
  bool when_scattered = true;
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
    // From the last image to the first: of the last ones a copy is still in the cache.
    const auto [n, c0, first] = row_unit(units - 1 - unit, units, a.tiles, a.slabs);
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
__global__ void __launch_bounds__(kThreads, sizeof(T) == 8 ? 1 : kRowBlocks)
    forward_rows(const __grid_constant__ RowsCall<T, I> a) {
  __shared__ __align__(16) RowsShared<T, I, kRows> s;
  wait_for_previous();
  if (is_not_meant(a)) return;
  sample_rows<kRows>(a, s, blockIdx.x, gridDim.x);
}

// ---- a copy whose channels lie together ----

template <class T, class I>
struct StageCall {
  Image<const T, I> from;
  T* to;  // [N, pixels, C]
  std::int64_t batch, channels, pixels, tiles, slabs;
  std::int64_t width;  // of a row of pixels
  bool joined;         // pixels are one stride apart, from row to row as well
  // Null, or what says whether it is worth it. Found out here, if not known: block 0 leaves it.
  Neighbours* neighbours;
  bool known;
  Grid<const T> grid;
  Frame<Compute<T>, I> frame;
};

// Runs of 32 neighbouring points, evenly spread; far are those more than four elements apart.
template <class T, class I>
__device__ Neighbours look_at_neighbours(const StageCall<T, I>& a) {
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
  return static_cast<Neighbours>(kRuns * 32) << 32 | static_cast<Neighbours>(count);
}

template <class T, class I>
__global__ void __launch_bounds__(kThreads) stage_rows(const __grid_constant__ StageCall<T, I> a) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T)), kLanes = kSlab / kVector;
  constexpr int kPitch = kRowPoints + 4 / static_cast<int>(sizeof(T)) + (sizeof(T) > 4);
  using Row = Vector<T, kVector>;
  __shared__ T tile[kSlab * kPitch];
  wait_for_previous();
  let_next_start();
  if (a.neighbours != nullptr) {
    const Neighbours seen = a.known ? *a.neighbours : look_at_neighbours(a);
    if (!a.known && blockIdx.x == 0 && threadIdx.x == 0) *a.neighbours = seen;
    if (!is_scattered(seen)) return;
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
