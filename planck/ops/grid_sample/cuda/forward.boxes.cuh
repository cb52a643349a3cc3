// 2-D bilinear sampling of dense planes where neighbours read near each other: the copy engine
// brings the box of the input that 32 × 32 points read to shared memory (boxes.cuh). Where the
// largest box is too small for the points (they lie a third further apart than the input's
// elements, say), their unit goes to a list, which another kernel works off.
//
// Versions tried on an H200, ms, f32 N16 C64 256^2 affine, this kernel alone; planes take 0.189, a
// copy of as many bytes 0.139:
//   32 x 64 points, boxes of 44 x 72, many too small                                   0.48
//   32 x 32 points, two channels, two or three stages, 64 channels per block           0.197
//   the same, 32 channels per block                                                    0.189
//   boxes of 44 x 40, three stages, five blocks                                        0.170
//   16 channels per block                                                              0.163
//   8 channels per block                                                               0.156
//   4 channels per block                                                               0.162
//   with wider reads of memory (128 bytes)                                             0.155
// At 16 channels:
//   four blocks in place of five                                                       0.160
//   weights kept, streaming stores                                                     no gain
//   no stores                                                                          0.119
//   32 x 16 points                                                                     0.162
// At 8 channels:
//   boxes as small as can be, by the threads (cp.async)                                0.162
//   the same, blocks that walk and prefetch for their next unit                        0.177
// 16-bit: sizes of boxes known to the compiler 0.112 -> 0.103.
// The same grid turned by 37 degrees, all kernels:
//   points of too small a box read at once, in this kernel, whose boxes leave little
//   of the first-level cache                                                           0.75
//   from the list                                                                      0.31
//   planes alone                                                                       0.22
//   a box of 52 x 50 beside that of 44 x 40                                            0.217
//   and one of 48 x 44                                                                 0.160
#pragma once

#include <algorithm>

#include "planck/ops/grid_sample/cuda/boxes.cuh"
#include "planck/ops/grid_sample/cuda/forward.cuh"

namespace planck::sample_device {

template <class T>
struct Box {
  static constexpr int kRows = 8;  // of threads; each has points as many rows apart
  static constexpr int kEach = 4;  // points of a thread
  static constexpr int kPoints = kRows * kEach;
  static constexpr int kChannels = 2, kBlockChannels = sizeof(T) == 4 ? 8 : 32;
  static constexpr int kBlocks = 5;  // on a multiprocessor
  // Of a grid that is as dense as the input: for points turned by 20 degrees, by 30 and anyhow.
  // Widths are whole vectors of 16 bytes, and a box may start almost one before its first element.
  static constexpr BoxShape shape(int size) {
    constexpr int kStep = kBoxAligned<T>;
    constexpr int kWidth[] = {40, 44, 48}, kHeight[] = {40, 44, 50}, kStages[] = {3, 2, 2};
    return BoxShape::of<T>((kWidth[size] + 2 * kStep - 1) / kStep * kStep, kHeight[size], kChannels,
                           kStages[size]);
  }
  static constexpr int kMostStages = 3;
  static constexpr std::size_t kShared =
      std::max({shape(0).shared(), shape(1).shared(), shape(2).shared()});
};

// Units whose points need a larger box than there is. They are counted in the high word of
// `neighbours`, above the points that were looked at: only a grid that is not scattered comes here,
// and a larger high word leaves it so.
struct Leftovers {
  Neighbours* neighbours;
  std::uint32_t* units;
};
inline constexpr unsigned kPointsLookedAt = 512;  // by look_at_neighbours

// Image, first channel, and first column and row of a unit's points.
struct BoxUnit {
  std::uint32_t n;
  int c0, x0, y0;
};
template <class T>
__device__ __forceinline__ BoxUnit box_unit(const PlanesCall<T>& a, std::uint32_t unit) {
  using B = Box<T>;
  const std::uint32_t rest = a.tiles.quotient(unit);
  const std::uint32_t tile = unit - rest * a.tiles.value, n = a.groups.quotient(rest);
  const std::uint32_t down = a.across.quotient(tile), along = tile - down * a.across.value;
  return {n, static_cast<int>(rest - n * a.groups.value) * B::kBlockChannels,
          static_cast<int>(along) * 32, static_cast<int>(down) * B::kPoints};
}

// What a thread needs of its points: the elements up and left of them, and how far they are from
// these. x = kOutside: off the image.
template <class T>
struct BoxPoints {
  static constexpr int kOutside = INT_MIN;
  int x[Box<T>::kEach], y[Box<T>::kEach];
  Compute<T> upper_x[Box<T>::kEach], upper_y[Box<T>::kEach];
};

// A unit whose points lie in a box of size kSize at (lx, ly). Its channels come in twos: they are
// whole vectors where the device chooses between kernels.
template <int kSize, class T>
__device__ __forceinline__ void sample_boxes(const PlanesCall<T>& a, const CUtensorMap& map,
                                             unsigned char* memory, std::uint64_t* full,
                                             const BoxUnit& unit, const BoxPoints<T>& points,
                                             int lx, int ly) {
  using C = Compute<T>;
  using B = Box<T>;
  constexpr BoxShape kShape = B::shape(kSize);
  const int tid = static_cast<int>(threadIdx.x);
  const int ox = unit.x0 + tid % 32, oy = unit.y0 + tid / 32;
  const int count = min(a.channels - unit.c0, B::kBlockChannels);
  const auto fetch = [&](int stage, int c) {
    fetch_box(map, memory + stage * kShape.stage_bytes, full + stage, kShape.bytes, lx, ly,
              unit.c0 + c, static_cast<int>(unit.n));
  };
  if (tid == 0)
    for (int s = 0; s < kShape.stages; ++s)
      if (s * B::kChannels < count) fetch(s, s * B::kChannels);
  int at[B::kEach];  // −1: outside
#pragma unroll
  for (int k = 0; k < B::kEach; ++k)
    at[k] = points.x[k] == BoxPoints<T>::kOutside
                ? -1
                : (points.y[k] - ly) * kShape.width + points.x[k] - lx;
  T* out = a.output + unit.n * a.output_n + unit.c0 * a.output_c + oy * a.width + ox;
  int stage = 0;
  unsigned phase = 0;
#pragma unroll 1
  for (int c = 0; c < count; c += B::kChannels) {
    await_phase(full + stage, phase);
    const T* const box = reinterpret_cast<const T*>(memory + stage * kShape.stage_bytes);
#pragma unroll
    for (int k = 0; k < B::kEach; ++k) {
      const C upper_x = points.upper_x[k], upper_y = points.upper_y[k];
      const C lower_x = C(1) - upper_x, lower_y = C(1) - upper_y;
      const C w00 = lower_x * lower_y, w01 = upper_x * lower_y;
      const C w10 = lower_x * upper_y, w11 = upper_x * upper_y;
      const bool valid = ox < a.width && oy + k * B::kRows < a.height;
#pragma unroll
      for (int u = 0; u < B::kChannels; ++u) {
        const T* const q0 = box + max(at[k], 0) + u * kShape.plane();
        const T* const q1 = q0 + kShape.width;
        const T r = narrow<T>(gm::bilinear(w00, widen(q0[0]), w01, widen(q0[1]), w10, widen(q1[0]),
                                           w11, widen(q1[1])));
        if (valid) out[u * a.output_c + k * B::kRows * a.width] = at[k] < 0 ? narrow<T>(C(0)) : r;
      }
    }
    out += B::kChannels * a.output_c;
    __syncthreads();
    const int next = c + kShape.stages * B::kChannels;
    if (tid == 0 && next < count) fetch(stage, next);
    if (++stage == kShape.stages) {
      stage = 0;
      phase ^= 1;
    }
  }
}

template <class T, bool kZeros>
__global__ void __launch_bounds__(kThreads, Box<T>::kBlocks)
    forward_boxes(const __grid_constant__ PlanesCall<T> a, const __grid_constant__ BoxMaps maps,
                  const Leftovers leftovers) {
  using B = Box<T>;
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ __align__(8) std::uint64_t full[B::kMostStages];
  __shared__ BoxBounds all;
  wait_for_previous();
  let_next_start();
  if (is_not_meant(a)) return;
  const int tid = static_cast<int>(threadIdx.x);
  const BoxUnit unit = box_unit(a, blockIdx.x);
  if (tid == 0) {
    all.clear();
    init_boxes(full);
  }
  BoxPoints<T> points;
  BoxBounds bounds;
  bounds.clear();
#pragma unroll
  for (int k = 0; k < B::kEach; ++k) {
    const int ox = unit.x0 + tid % 32, oy = unit.y0 + tid / 32 + k * B::kRows;
    const int p = min(oy, a.height - 1) * a.width + min(ox, a.width - 1);
    const auto g = *reinterpret_cast<const Vector<T, 2>*>(a.grid + unit.n * a.grid_n + 2 * p);
    const auto x = taps_of<kZeros>(widen(g.v[0]), a.x), y = taps_of<kZeros>(widen(g.v[1]), a.y);
    const bool outside = x.base == -2 || y.base == -2;
    if (!outside) bounds.add(x.base, y.base);
    points.x[k] = outside ? BoxPoints<T>::kOutside : x.base;
    points.y[k] = y.base;
    points.upper_x[k] = x.upper;
    points.upper_y[k] = y.upper;
  }
  bounds.join(all);
  const int lx = bounds.low_x & ~(kBoxAligned<T> - 1), ly = bounds.low_y;
  const int across = bounds.high_x - lx + 2, down = bounds.high_y - ly + 2;
  constexpr BoxShape kSmall = B::shape(0), kMedium = B::shape(1), kLarge = B::shape(2);
  if (kSmall.holds(across, down)) {
    sample_boxes<0>(a, maps.of[0], memory, full, unit, points, lx, ly);
  } else if (kMedium.holds(across, down)) {
    sample_boxes<1>(a, maps.of[1], memory, full, unit, points, lx, ly);
  } else if (kLarge.holds(across, down)) {
    sample_boxes<2>(a, maps.of[2], memory, full, unit, points, lx, ly);
  } else if (tid == 0) {
    const Neighbours before = atomicAdd(leftovers.neighbours, Neighbours{1} << 32);
    leftovers.units[(before >> 32) - kPointsLookedAt] = blockIdx.x;
  }
}

// What is left: rows of a copy of the input where the grid is scattered, else what forward_boxes
// left, eight rows and eight channels at a time. Parts of all units, then the next parts: blocks
// at work at the same time read the same channels.
template <class T, bool kZeros>
__global__ void __launch_bounds__(kThreads, kRowBlocks)
    forward_rest(const __grid_constant__ PlanesCall<T> a, const Leftovers leftovers,
                 const __grid_constant__ RowsCall<T, std::int32_t> rows) {
  using B = Box<T>;
  constexpr int kChannels = 8;
  constexpr std::uint32_t kAcross = B::kBlockChannels / kChannels, kParts = kAcross * B::kEach;
  __shared__ __align__(16) RowsShared<T, std::int32_t, false> s;
  wait_for_previous();
  if (!is_not_meant(rows)) {
    sample_rows<false>(rows, s, blockIdx.x, gridDim.x);
    return;
  }
  const auto units = static_cast<std::uint32_t>(*leftovers.neighbours >> 32) - kPointsLookedAt;
  const int tid = static_cast<int>(threadIdx.x);
  for (std::uint32_t k = blockIdx.x; k < units * kParts; k += gridDim.x) {
    const std::uint32_t part = k / units;
    const BoxUnit u = box_unit(a, leftovers.units[k - part * units]);
    const int c0 = u.c0 + static_cast<int>(part % kAcross) * kChannels;
    const int ox = u.x0 + tid % 32;
    const int oy = u.y0 + static_cast<int>(part / kAcross) * B::kRows + tid / 32;
    if (c0 >= a.channels) continue;
    const int p = min(oy, a.height - 1) * a.width + min(ox, a.width - 1);
    sample_planes<kZeros>(a, u.n, c0, min(a.channels - c0, kChannels), p,
                          ox < a.width && oy < a.height);
  }
}

}  // namespace planck::sample_device
