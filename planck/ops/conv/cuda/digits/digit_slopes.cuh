// dweight of exact: rows of cells (host/cells.h) of x, moved by what a tap is away, by those of dy.
//
//   x   [part][digit][channel][k]     dy  [digit][filter][k]
//   sums [some of k][group][tap][block of 64 channels][channel][filter] of int64
//
// A warpgroup has 64 channels of one tap and 64 filters. k is cut so that there is work for all;
// the cuts' sums are added in memory, integers that they are.
#pragma once

#include "planck/loops/cuda/division.cuh"
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

// Sums to dweight: a block has 32 filters and 96 of (channel, tap), so that neighbours are read,
// and neighbours stored.
struct SlopeJoin {
  SlopeSums from;
  Windows w;
  Tensor4 x, dy, out;
  Magnitudes of_x, of_dy;
  int filter_tiles, item_tiles;
  Divisor taps, across;
  static constexpr int kThreads = 256, kWarps = kThreads / 32, kFilters = 32, kItems = 96;

  struct Item {
    int channel, tap;
  };
  __device__ Item item(int at) const {
    const int channel = static_cast<int>(taps.quotient(static_cast<std::uint32_t>(at)));
    return {channel, at - channel * from.taps};
  }
  std::int64_t blocks() const { return std::int64_t{from.groups} * filter_tiles * item_tiles; }
};

// Any slope: of several sums, beyond f32's normal numbers, or that met NaN or infinities.
inline __device__ __noinline__ float any_slope(const SlopeJoin& a, int group,
                                               const SlopeJoin::Item& item, int filter) {
  const SlopeSums& s = a.from;
  const std::int64_t channel = std::int64_t{group} * s.channels + item.channel,
                     f = std::int64_t{group} * s.filters + filter;
  if ((a.of_x.odd[channel] | a.of_dy.odd[f]) != 0) {
    const NotFiniteSum found = not_finite_slope(a.w, a.x, a.dy, f, item.tap, channel);
    if (found.any()) return found.value();
  }
  const std::int64_t* const sums = s.sums + s.at(group, item.tap, item.channel) + filter;
  math::exact::Wide sum;
  for (int i = 0; i < s.many; ++i) sum.add(sums[i * s.each()]);
  return math::exact::round_exact(
      sum, math::exact::exponent_of_sum(a.of_x.exponent(channel), a.of_dy.exponent(f)));
}

inline __global__ void __launch_bounds__(SlopeJoin::kThreads, 4)
    join_slopes(const __grid_constant__ SlopeJoin a) {
  follow();
  constexpr int kWarps = SlopeJoin::kWarps, kItems = SlopeJoin::kItems;
  constexpr int kReads = kItems / kWarps, kLines = SlopeJoin::kFilters / kWarps;
  __shared__ float turned[SlopeJoin::kFilters][kItems + 1];
  const SlopeSums& s = a.from;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int rest = static_cast<int>(blockIdx.x) / a.filter_tiles, group = rest / a.item_tiles;
  const int filter0 = (static_cast<int>(blockIdx.x) - rest * a.filter_tiles) * SlopeJoin::kFilters;
  const int item0 = (rest - group * a.item_tiles) * kItems,
            count = min(kItems, s.channels * s.taps - item0);
  const bool is_there = filter0 + lane < s.filters;
  const int filter = min(filter0 + lane, s.filters - 1);
  const std::int64_t f = std::int64_t{group} * s.filters + filter,
                     channels = std::int64_t{group} * s.channels;
  // All that a thread reads is asked for before the first is used; what is unusual comes after it,
  // in a loop of its own.
  std::int64_t sums[kReads];
  std::uint32_t largest[kReads];
  std::uint32_t odd = a.of_dy.odd[f];
#pragma unroll
  for (int i = 0; i < kReads; ++i) {
    const auto item = a.item(item0 + min(i * kWarps + warp, count - 1));
    sums[i] = s.sums[s.at(group, item.tap, item.channel) + filter];
    largest[i] = a.of_x.largest[channels + item.channel];
    odd |= a.of_x.odd[channels + item.channel];
  }
  const int of_filter = a.of_dy.exponent(f);
  bool is_unusual = s.many > 1 || odd != 0;
#pragma unroll
  for (int i = 0; i < kReads; ++i) {
    const int n = math::exact::exponent_of_sum(math::exact::exponent_of(largest[i]), of_filter);
    turned[lane][i * kWarps + warp] = usual_sum(sums[i], n, is_unusual);
  }
  if (is_there && is_unusual) {
#pragma unroll 1
    for (int at = warp; at < count; at += kWarps)
      turned[lane][at] = any_slope(a, group, a.item(item0 + at), filter);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kItems / 32; ++i) {
    const int at = i * 32 + lane;
    if (at >= count) break;
    const auto item = a.item(item0 + at);
    const int u = static_cast<int>(a.across.quotient(static_cast<std::uint32_t>(item.tap)));
    float* const to = static_cast<float*>(a.out.data) + item.channel * a.out.strides[1] +
                      u * a.out.strides[2] +
                      (item.tap - u * static_cast<int>(a.across.value)) * a.out.strides[3];
#pragma unroll
    for (int l = 0; l < kLines; ++l)
      if (const int of = warp * kLines + l; filter0 + of < s.filters)
        to[(std::int64_t{group} * s.filters + filter0 + of) * a.out.strides[0]] = turned[of][at];
  }
}

}  // namespace planck::conv_device
