// Backward of 2-D bilinear sampling where the channels of an element lie together, in dout and in
// input: a few lanes per point or element, 16 bytes of channels per lane. Scattered points then
// cost as much as ordered ones.
#pragma once

#include "planck/ops/grid_sample/cuda/pairwise.cuh"
#include "planck/ops/grid_sample/cuda/rows.cuh"
#include "planck/ops/grid_sample/cuda/tiles.cuh"

namespace planck::sample_device {

// Lanes that have a row of up to kSlab channels, and what a lane has of it.
template <class T>
struct RowLanes {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  static constexpr int kLanes = kSlab / kVector, kGroups = 256 / kLanes;
};

template <class T, class C, int kVector>
__device__ __forceinline__ void load_lane(const T* p, C (&v)[kVector]) {
  const uint4 word = __ldg(reinterpret_cast<const uint4*>(p));
  const auto r = *reinterpret_cast<const Vector<T, kVector>*>(&word);
#pragma unroll
  for (int e = 0; e < kVector; ++e) v[e] = widen(r.v[e]);
}

// ---- dinput ----

template <class T, bool kRowsOut>
struct DinputShared {
  using C = Compute<T>;
  static constexpr int kElements = 64;  // at a time
  static constexpr int kPitch = kElements + 1;
  TilePoints<C> points;
  C tile[kRowsOut ? 1 : kSlab * kPitch];
};

// kRowsOut: the channels of an element lie together in dinput as well.
template <class T, bool kRowsOut, bool kZeros, int kBlocks>
__global__ void __launch_bounds__(256, kBlocks) dinput_rows(const __grid_constant__ TileCall<T> a) {
  using C = Compute<T>;
  using Shared = DinputShared<T, kRowsOut>;
  using Lanes = RowLanes<T>;
  constexpr int kVector = Lanes::kVector, kGroups = Lanes::kGroups;
  constexpr int kElements = Shared::kElements, kPitch = Shared::kPitch;
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  wait_for_previous();
  if (is_not_meant(a)) return;
  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % Lanes::kLanes, group = tid / Lanes::kLanes;
  const int width = a.frame.axis[0].size, height = a.frame.axis[1].size;
  const std::int64_t units = a.tiles * a.frame.batch;
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const std::int64_t n = unit / a.tiles;
    const int tile = static_cast<int>(unit - n * a.tiles);
    const int tile_y = tile / a.across, tile_x = tile - tile_y * a.across;
    const int x0 = tile_x * BinLayout::kTileWidth, y0 = tile_y * BinLayout::kTileHeight;
    OwnPoints own;
    if (!sort_tile<Reached::joined, kZeros>(a, s.points.cells, n, tile, x0, y0, own,
                                            CarriedWeights<C>{s.points}))
      continue;
    T* const dinput = a.dinput.data + n * a.dinput.n + y0 * a.dinput.y + x0 * a.dinput.x;
    for (std::int64_t c0 = 0; c0 < a.frame.channels; c0 += kSlab) {
      const std::int64_t left = a.frame.channels - c0;
      const bool some = lane * kVector < left;
      const T* const dout = a.dout.data + n * a.dout.n + c0 + lane * kVector;
      const auto load_point = [&](int slot, C(&v)[kVector]) {
        const auto point = static_cast<std::int32_t>(s.points.sorted[slot]);
        load_lane(dout + std::int64_t{point} * a.dout_step, v);
      };
#pragma unroll 1
      for (int first = 0; first < 256; first += kElements) {
        if (some) {
#pragma unroll 1
          for (int local = group; local < kElements; local += kGroups) {
            const int px = (first + local) % BinLayout::kTileWidth;
            const int py = (first + local) / BinLayout::kTileWidth;
            if (x0 + px >= width || y0 + py >= height) continue;
            const Reach reach = reach_of(s.points.cells, first + local);
            C sum[kVector];
            if (reach.count() <= kSumChunk)
              sum_points<false, 4>(s.points, reach, load_point, sum);
            else
              sum_points<true, 1>(s.points, reach, load_point, sum);
            if constexpr (kRowsOut) {
              if (a.accumulate && reach.count() == 0) continue;
              using Row = Vector<T, kVector>;
              auto* const to = reinterpret_cast<Row*>(dinput + py * a.dinput.y + px * a.dinput.x +
                                                      c0 + lane * kVector);
              Row r;
              if (a.accumulate) r = *to;
#pragma unroll
              for (int e = 0; e < kVector; ++e)
                r.v[e] = narrow<T>(a.accumulate ? widen(r.v[e]) + sum[e] : sum[e]);
              *to = r;
            } else {
#pragma unroll
              for (int e = 0; e < kVector; ++e)
                s.tile[(lane * kVector + e) * kPitch + local] = sum[e];
            }
          }
        }
        if constexpr (!kRowsOut) {
          __syncthreads();
          const int local = tid % kElements, k0 = tid / kElements;
          const int px = (first + local) % BinLayout::kTileWidth;
          const int py = (first + local) / BinLayout::kTileWidth;
          const bool written =
              x0 + px < width && y0 + py < height &&
              !(a.accumulate && reach_of(s.points.cells, first + local).count() == 0);
          if (written) {
            constexpr int kStep = 256 / kElements;
            T* to = dinput + py * a.dinput.y + px * a.dinput.x + (c0 + k0) * a.dinput.c;
            const std::int64_t step = kStep * a.dinput.c;
            const int end = left < kSlab ? static_cast<int>(left) : kSlab;
#pragma unroll 4
            for (int k = k0; k < end; k += kStep) {
              const C v = s.tile[k * kPitch + local];
              *to = narrow<T>(a.accumulate ? widen(*to) + v : v);
              to += step;
            }
          }
          __syncthreads();
        }
      }
    }
    __syncthreads();
  }
}

// ---- dgrid ----

inline constexpr int kSlabLevels = 3;  // of the tree over slabs
inline constexpr std::int64_t kMostTileChannels = kSlab << (kSlabLevels - 1);

template <class T, bool kCopy>
struct SlopeShared {
  using C = Compute<T>;
  static constexpr int kPitch = kRowPoints + 4 / static_cast<int>(sizeof(T)) + (sizeof(T) > 4);
  T tile[kCopy ? kSlab * kPitch : 1];
  struct Point {
    C tx, ty, slope_x, slope_y;
    std::int64_t offset;
    unsigned inside;
  } points[kRowPoints];
  C slabs[kSlabLevels][kRowPoints][2];
};

// kCopy: dout has no rows; they are made on the way, for dinput. 64 points at a time.
template <class T, bool kCopy>
__global__ void __launch_bounds__(256) dgrid_rows(const __grid_constant__ TileCall<T> a) {
  using C = Compute<T>;
  using Shared = SlopeShared<T, kCopy>;
  using Lanes = RowLanes<T>;
  constexpr int kVector = Lanes::kVector, kLanes = Lanes::kLanes, kPitch = Shared::kPitch;
  __shared__ __align__(16) Shared s;
  wait_for_previous();
  if (is_not_meant(a)) return;
  const int tid = static_cast<int>(threadIdx.x), lane = tid % kLanes, group = tid / kLanes;
  const int width = a.frame.axis[0].size, height = a.frame.axis[1].size;
  const std::int64_t channels = a.frame.channels;
  const std::int64_t each = (a.frame.points + kRowPoints - 1) / kRowPoints;
  const std::int64_t units = each * a.frame.batch;
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    // From the last image to the first: of the last ones the copies are still in the cache.
    const std::int64_t n = (units - 1 - unit) / each;
    const std::int64_t first = (units - 1 - unit - n * each) * kRowPoints;
    const int here =
        a.frame.points - first < kRowPoints ? static_cast<int>(a.frame.points - first) : kRowPoints;
    if (tid < here) {
      C g[3];
      coordinates<2>(a.grid, n, {0, 0, first + tid}, g);
      const auto x = gm::linear_taps(g[0], a.frame.axis[0]);
      const auto y = gm::linear_taps(g[1], a.frame.axis[1]);
      unsigned inside =
          (gm::inside(x.base, width) ? 5u : 0u) | (gm::inside(x.base + 1, width) ? 10u : 0u);
      if (!gm::inside(y.base, height)) inside &= ~3u;
      if (!gm::inside(y.base + 1, height)) inside &= ~12u;
      s.points[tid] = {x.upper, y.upper, x.slope, y.slope, y.base * a.input.y + x.base * a.input.x,
                       inside};
    }
    unsigned slab = 0;
    for (std::int64_t c0 = 0; c0 < channels; c0 += kSlab, ++slab) {
      const std::int64_t left = channels - c0;
      if constexpr (kCopy) {
        const int local = tid % kRowPoints;
        constexpr int kStep = 256 / kRowPoints, kEach = kSlab / kStep;
        const int k0 = tid / kRowPoints;
        if (local < here) {
          const T* in =
              a.dout.data + n * a.dout.n + (first + local) * a.dout_step + (c0 + k0) * a.dout.c;
          const std::int64_t step = kStep * a.dout.c;
          T v[kEach];
#pragma unroll
          for (int k = 0; k < kEach; ++k)
            if (k0 + k * kStep < left) v[k] = in[k * step];
#pragma unroll
          for (int k = 0; k < kEach; ++k) s.tile[(k0 + k * kStep) * kPitch + local] = v[k];
        }
      }
      __syncthreads();
      const int have = left < kSlab ? static_cast<int>(left) / kVector : kLanes;
      const T* const input = a.input.data + n * a.input.n + c0 + lane * kVector;
#pragma unroll 2
      for (int local = group; local < (here + Lanes::kGroups - 1) / Lanes::kGroups * Lanes::kGroups;
           local += Lanes::kGroups) {
        const bool some = local < here && lane < have;
        C sum_x = 0, sum_y = 0;
        if (some) {
          const auto p = s.points[local];
          C d[kVector], v[4][kVector];
          if constexpr (kCopy) {
            Vector<T, kVector> row;
#pragma unroll
            for (int e = 0; e < kVector; ++e) {
              row.v[e] = s.tile[(lane * kVector + e) * kPitch + local];
              d[e] = widen(row.v[e]);
            }
            *reinterpret_cast<Vector<T, kVector>*>(a.dout_rows +
                                                   (n * a.frame.points + first + local) * channels +
                                                   c0 + lane * kVector) = row;
          } else {
            load_lane(
                a.dout.data + n * a.dout.n + (first + local) * a.dout_step + c0 + lane * kVector,
                d);
          }
#pragma unroll
          for (int t = 0; t < 4; ++t) {
            if (p.inside >> t & 1) {
              load_lane(input + p.offset + (t & 1 ? a.input.x : 0) + (t & 2 ? a.input.y : 0), v[t]);
            } else {
#pragma unroll
              for (int e = 0; e < kVector; ++e) v[t][e] = C(0);
            }
          }
          const C lx = C(1) - p.tx, ly = C(1) - p.ty;
          C terms_x[kVector], terms_y[kVector];
#pragma unroll
          for (int e = 0; e < kVector; ++e) {
            terms_x[e] = gm::bilinear_slope(d[e], v[0][e], v[1][e], v[2][e], v[3][e], ly, p.ty);
            terms_y[e] = gm::bilinear_slope(d[e], v[0][e], v[2][e], v[1][e], v[3][e], lx, p.tx);
          }
          sum_x = tree_of<kVector>(terms_x, kVector);
          sum_y = tree_of<kVector>(terms_y, kVector);
        }
#pragma unroll
        for (int d = 1; d < kLanes; d *= 2) {  // the tree goes on over lanes
          const C right_x = __shfl_down_sync(~0u, sum_x, d, kLanes);
          const C right_y = __shfl_down_sync(~0u, sum_y, d, kLanes);
          if (lane % (2 * d) == 0 && lane + d < have) {
            sum_x = sum_x + right_x;
            sum_y = sum_y + right_y;
          }
        }
        if (lane == 0 && local < here) {  // and over slabs
          int level = 0;
          for (; slab >> level & 1; ++level) {
            sum_x = s.slabs[level][local][0] + sum_x;
            sum_y = s.slabs[level][local][1] + sum_y;
          }
          s.slabs[level][local][0] = sum_x;
          s.slabs[level][local][1] = sum_y;
        }
      }
      __syncthreads();
    }
    if (tid < here) {
      C sum[2] = {};
      bool any = false;
      for (int level = 0; level < kSlabLevels; ++level)
        if (slab >> level & 1) {
#pragma unroll
          for (int k = 0; k < 2; ++k)
            sum[k] = any ? s.slabs[level][tid][k] + sum[k] : s.slabs[level][tid][k];
          any = true;
        }
      const auto p = s.points[tid];
      T* const to = a.dgrid.data + n * a.dgrid.n + (first + tid) * a.dgrid.x;
      const C dx = p.slope_x == C(0) ? C(0) : p.slope_x * sum[0];
      const C dy = p.slope_y == C(0) ? C(0) : p.slope_y * sum[1];
      to[0] = narrow<T>(a.accumulate_grid ? widen(to[0]) + dx : dx);
      to[a.dgrid.k] = narrow<T>(a.accumulate_grid ? widen(to[a.dgrid.k]) + dy : dy);
    }
    __syncthreads();
  }
}

}  // namespace planck::sample_device
