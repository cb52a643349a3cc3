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
  DigitWalk walk;  // rows are blocks of channels of taps, columns filters, batches cuts of groups
  conv_detail::Cells cells;
  SlopeSums out;
  int cuts, steps_of_cut, all_steps;

  __device__ int cut(const DigitWalk::Tile& tile) const { return tile.batch % cuts; }
  template <class W>
  __device__ int steps(const DigitWalk::Tile& tile) const {
    return min(steps_of_cut, all_steps - cut(tile) * steps_of_cut);
  }
  __device__ bool has_rows(const DigitWalk::Tile& tile, int group) const {
    return tile.row / 64 + group < out.taps * out.blocks;
  }

  template <class W>
  __device__ void bring(const CUtensorMap& map_x, const CUtensorMap& map_dy,
                        const DigitWalk::Tile& tile, int rank, DigitRing<W>& ring) const {
    constexpr std::uint16_t kBoth = 3, kRows = W::kShareRows ? kBoth : 0,
                            kColumns = W::kShareRows ? 0 : kBoth;
    constexpr int kOwn = W::kOwnRows / 64;
    const int row = W::kShareRows ? rank : 0, column = W::kShareRows ? 0 : rank * W::kOwnColumns;
    const int group = tile.batch / cuts;
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
    int k = cut(tile) * steps_of_cut * W::kBlock;
    for (int s = steps<W>(tile); s > 0; --s, k += W::kBlock, ring.turn.next()) {
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
    }
  }

  template <class W>
  __device__ __forceinline__ void store(const DigitSums& sums, const DigitWalk::Tile& tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int number = tile.row / 64 + static_cast<int>(threadIdx.x) / 128 - 1;
    const int tap = number / out.blocks;
    const int channel =
        (number - tap * out.blocks) * 64 + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane / 4;
    const int filter = tile.column + lane % 4 * 2;
    const std::int64_t k = std::int64_t{cut(tile)} * steps_of_cut * W::kBlock;
    std::int64_t* const to =
        out.sums + k / SlopeSums::kOfOneSum * out.each() + out.at(tile.batch / cuts, tap, 0);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (channel + 8 * h >= out.channels) break;
      std::int64_t* const row = to + std::int64_t{channel + 8 * h} * out.filters + filter;
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (filter + 8 * j + i >= out.filters) continue;
          const std::int64_t sum = joined(sums, 4 * j + 2 * h + i);
          if (cuts == 1)
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
inline constexpr int kJoinThreads = 256, kJoinFilters = 32;

struct SlopeJoin {
  SlopeSums from;
  Windows w;
  Tensor4 x, dy, out;
  Magnitudes of_x, of_dy;
  int at_once;  // channels of a block
  int filter_tiles, channel_tiles;
};

inline __global__ void __launch_bounds__(kJoinThreads)
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
  const std::int64_t f = std::int64_t{group} * s.filters + filter;
  if (filter < s.filters) {
    const int of_filter = a.of_dy.exponent(f);
    const bool odd_filter = a.of_dy.odd[f] != 0;
    for (int at = warp; at < count; at += kJoinThreads / 32) {
      const int c = channel0 + at / s.taps, tap = at % s.taps;
      const std::int64_t channel = std::int64_t{group} * s.channels + c;
      const std::int64_t* const from = s.sums + s.at(group, tap, c) + filter;
      const int n = math::exact::exponent_of_sum(a.of_x.exponent(channel), of_filter);
      float value;
      if (s.many == 1) {
        value = round_sum(*from, n);
      } else {
        math::exact::Wide sum;
        for (int i = 0; i < s.many; ++i) sum.add(from[i * s.each()]);
        value = math::exact::round_exact(sum, n);
      }
      if (odd_filter || a.of_x.odd[channel] != 0) {
        const NotFiniteSum found = not_finite_slope(a.w, a.x, a.dy, f, tap, channel);
        if (found.any()) value = found.value();
      }
      joined_sums[lane * pitch + at] = value;
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
