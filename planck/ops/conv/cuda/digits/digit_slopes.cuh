// dweight of exact: rows of cells (host/cells.h) of x, moved by what a tap is away, by those of dy.
//
//   x   [part][digit][channel][k]     dy  [digit][filter][k]
//   sums [some of k][group][tap][block of 64 channels][channel][filter] of int64
//
// A warpgroup has 64 channels of one tap and 64 filters. k is cut so that there is work for all;
// the cuts' sums are added in memory, integers that they are.
#pragma once

#include "planck/ops/conv/cuda/digits/digit_tiles.cuh"
#include "planck/ops/conv/cuda/magnitudes.cuh"
#include "planck/ops/conv/cuda/places_out.cuh"
#include "planck/ops/conv/host/cells.h"
#include "planck/ops/conv/host/slope_cuts.h"

namespace planck::conv_device {

// How sums lie.
struct SlopeSums {
  std::int64_t* sums;
  int groups, taps, channels, filters;  // of a group
  int blocks;                           // of 64 channels, of a tap
  int many;                             // sums of each element, of at most kOfOneSum of k
  static constexpr std::int64_t kOfOneSum = std::int64_t{1} << 18;

  PLANCK_HD std::int64_t each() const {
    return std::int64_t{groups} * taps * blocks * 64 * filters;
  }
  PLANCK_HD std::int64_t at(int group, int tap, int channel) const {
    return ((std::int64_t{group} * taps + tap) * blocks * 64 + channel) * filters;
  }
};

struct SlopeDigits {
  struct Tile {
    int row, column, group, first, steps;  // first and steps: of k
    bool alone;                            // no other has sums of it
  };
  conv_detail::SlopeCuts cuts;
  conv_detail::Cells cells;
  SlopeSums out;
  int steps_of_line, between_lines;  // steps of a run of k, bytes of zeros to the next

  PLANCK_HD int count() const { return cuts.count(); }
  template <class W>
  __device__ Tile tile(int t, int rank) const {
    const auto at = cuts.at(t);
    const DigitPlace begin = begin_of<W>(at.row, at.column, rank);
    return {begin.row, begin.column, at.group, at.first, at.steps, at.alone};
  }
  template <class W>
  __device__ int steps(const Tile& tile) const {
    return tile.steps;
  }
  __device__ bool has_rows(const Tile& tile, int group) const {
    return tile.row / 64 + group < out.taps * out.blocks;
  }

  template <class W>
  __device__ void bring(const CUtensorMap& map_x, const CUtensorMap& map_dy, const Tile& tile,
                        int rank, DigitRing<W>& ring) const {
    constexpr std::uint16_t kBoth = 3, kRows = W::kShareRows ? kBoth : 0,
                            kColumns = W::kShareRows ? 0 : kBoth;
    constexpr int kOwn = W::kOwnRows / 64;
    const int row = W::kShareRows ? rank : 0, column = W::kShareRows ? 0 : rank * W::kOwnColumns;
    const int group = tile.group;
    int channel[kOwn], plane[kOwn], move[kOwn];
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      const int number = tile.row / 64 + row + r, tap = number / out.blocks;
      const bool there = tap < out.taps;
      const auto from = cells.of(there ? tap : 0);
      channel[r] = there ? group * out.channels + (number - tap * out.blocks) * 64
                         : out.groups * out.channels;  // none: zeros
      plane[r] = from.part * kDigits, move[r] = from.move;
    }
    const int line = tile.first / steps_of_line;
    int k = tile.first * W::kBlock + line * between_lines,
        left = (line + 1) * steps_of_line - tile.first;
#pragma unroll 1
    for (int s = tile.steps; s > 0; --s, ring.turn.next()) {
      std::uint64_t* const barrier = ring.take_free();
#pragma unroll
      for (int d = 0; d < kDigits; ++d) {
#pragma unroll
        for (int r = 0; r < kOwn; ++r)
          copy_box(map_x, barrier, ring.rows(d) + (row + r) * 64 * W::kBlock, k + move[r],
                   channel[r], plane[r] + d, kRows);
        copy_box(map_dy, barrier, ring.columns(d) + column * W::kBlock, k,
                 group * out.filters + tile.column + column, d, kColumns);
      }
      k += W::kBlock;
      if (--left == 0) k += between_lines, left = steps_of_line;
    }
  }

  template <class W>
  __device__ __forceinline__ void store(const DigitSums& sums, const Tile& tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int number = tile.row / 64 + static_cast<int>(threadIdx.x) / 128 - 1;
    const int tap = number / out.blocks;
    const int channel =
        (number - tap * out.blocks) * 64 + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane / 4;
    const int filter = tile.column + lane % 4 * 2;
    const std::int64_t k = std::int64_t{tile.first} * W::kBlock;
    std::int64_t* const to =
        out.sums + k / SlopeSums::kOfOneSum * out.each() + out.at(tile.group, tap, 0);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (channel + 8 * h >= out.channels) break;
      std::int64_t* const row = to + std::int64_t{channel + 8 * h} * out.filters + filter;
      if (tile.alone && out.filters % 2 == 0) {
#pragma unroll
        for (int j = 0; j < 8; ++j)
          if (filter + 8 * j < out.filters)
            *reinterpret_cast<longlong2*>(row + 8 * j) = {joined(sums, 4 * j + 2 * h),
                                                          joined(sums, 4 * j + 2 * h + 1)};
        continue;
      }
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (filter + 8 * j + i >= out.filters) continue;
          const std::int64_t sum = joined(sums, 4 * j + 2 * h + i);
          if (tile.alone)
            row[8 * j + i] = sum;
          else
            atomicAdd(reinterpret_cast<unsigned long long*>(row + 8 * j + i),
                      static_cast<unsigned long long>(sum));
        }
    }
  }
};

// Sums to dweight: a block has 32 filters and all taps of some channels, so that neighbours are
// read, and neighbours stored.
inline constexpr int kJoinThreads = 256, kJoinFilters = 32, kJoinWarps = kJoinThreads / 32;
inline constexpr int kJoinAhead = 4;  // sums of a thread that are on their way together

struct SlopeJoin {
  SlopeSums from;
  Windows w;
  Tensor4 x, dy, out;
  Magnitudes of_x, of_dy;
  int at_once;  // channels of a block
  int filter_tiles, channel_tiles;
};

// Any element: of several sums, beyond f32's normal numbers, or that met NaN or infinities.
inline __device__ __noinline__ float any_slope(const SlopeJoin& a, int group, int tap, int c,
                                               int filter) {
  const SlopeSums& s = a.from;
  const std::int64_t channel = std::int64_t{group} * s.channels + c,
                     f = std::int64_t{group} * s.filters + filter;
  if (a.of_dy.odd[f] != 0 || a.of_x.odd[channel] != 0) {
    const NotFiniteSum found = not_finite_slope(a.w, a.x, a.dy, f, tap, channel);
    if (found.any()) return found.value();
  }
  const std::int64_t* const from = s.sums + s.at(group, tap, c) + filter;
  math::exact::Wide sum;
  for (int i = 0; i < s.many; ++i) sum.add(from[i * s.each()]);
  return math::exact::round_exact(
      sum, math::exact::exponent_of_sum(a.of_x.exponent(channel), a.of_dy.exponent(f)));
}

inline __global__ void __launch_bounds__(kJoinThreads, 3)
    join_slopes(const __grid_constant__ SlopeJoin a) {
  follow();
  extern __shared__ float joined_sums[];
  const SlopeSums& s = a.from;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int filter0 = static_cast<int>(blockIdx.x) % a.filter_tiles * kJoinFilters,
            rest = static_cast<int>(blockIdx.x) / a.filter_tiles;
  const int channel0 = rest % a.channel_tiles * a.at_once, group = rest / a.channel_tiles;
  const int count = min(a.at_once, s.channels - channel0) * s.taps, pitch = a.at_once * s.taps + 1;
  const int filter = filter0 + lane;
  if (filter < s.filters) {
    const std::int64_t f = std::int64_t{group} * s.filters + filter;
    const std::uint32_t of_filter = a.of_dy.largest[f], odd_filter = a.of_dy.odd[f];
    for (int at0 = warp; at0 < count; at0 += kJoinAhead * kJoinWarps) {
      std::int64_t sums[kJoinAhead];
      std::uint32_t largest[kJoinAhead], odd[kJoinAhead];
#pragma unroll
      for (int i = 0; i < kJoinAhead; ++i) {
        const int at = min(at0 + i * kJoinWarps, count - 1), c = channel0 + at / s.taps;
        const std::int64_t channel = std::int64_t{group} * s.channels + c;
        sums[i] = s.sums[s.at(group, at % s.taps, c) + filter];
        largest[i] = a.of_x.largest[channel], odd[i] = a.of_x.odd[channel] | odd_filter;
      }
      unsigned others = 0;
#pragma unroll
      for (int i = 0; i < kJoinAhead; ++i) {
        const int at = at0 + i * kJoinWarps;
        if (at >= count) break;
        bool is_other = s.many != 1 || odd[i] != 0;
        const int n = math::exact::exponent_of_sum(math::exact::exponent_of(largest[i]),
                                                   math::exact::exponent_of(of_filter));
        joined_sums[lane * pitch + at] = usual_sum(sums[i], n, is_other);
        others |= is_other ? 1u << i : 0;
      }
      for (; others != 0; others &= others - 1) {
        const int at = at0 + (__ffs(static_cast<int>(others)) - 1) * kJoinWarps;
        joined_sums[lane * pitch + at] =
            any_slope(a, group, at % s.taps, channel0 + at / s.taps, filter);
      }
    }
  }
  __syncthreads();
  const int across = static_cast<int>(a.w.across.taps);
  for (int l = warp; l < kJoinFilters && filter0 + l < s.filters; l += kJoinThreads / 32)
    for (int at = lane; at < count; at += 32) {
      const int c = channel0 + at / s.taps, tap = at % s.taps;
      float* const out = static_cast<float*>(a.out.data) +
                         (std::int64_t{group} * s.filters + filter0 + l) * a.out.strides[0];
      out[c * a.out.strides[1] + tap / across * a.out.strides[2] +
          tap % across * a.out.strides[3]] = joined_sums[l * pitch + at];
    }
}

}  // namespace planck::conv_device
