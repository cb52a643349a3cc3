// y and dx of exact: windows of an image of digits, which the copy engine brings tap by tap
// (host/walk.h), by laid filters.
//
//   image    [n][h][w][group][block of channels][digit][channel of the block]
//   filters  [group][row][tap][block][digit][channel of the block]
#pragma once

#include <climits>

#include "planck/ops/conv/cuda/digits/digit_tiles.cuh"
#include "planck/ops/conv/cuda/implicit.cuh"
#include "planck/ops/conv/host/window_cuts.h"

namespace planck::conv_device {

// Where the sums of tiles that are cut along k are added; who adds the last of them stores them.
struct CutSums {
  std::int64_t* sums;  // [tile][warpgroup][32][thread], zeros before
  unsigned* added;     // [tile][warp], zeros before
  static constexpr int kSums = 2 * 32 * 128, kWarps = 8;  // of a tile
};

struct WindowDigits {
  struct Tile {
    int row, column, group, first, steps;
    int cut_tile;  // below 0: not cut
  };
  gemm_device::TileWalk walk;  // rows are places, columns filters of y or channels of dx
  conv_detail::WindowCuts cuts;
  CutSums of_cuts;
  WindowWalk windows;
  int places, rows, groups;
  float* out;
  std::int64_t image, line, place, channel;  // from one to the next in `out`
  const int *of_images, *of_filters;         // exponents

  PLANCK_HD int count() const { return cuts.count(); }
  template <class W>
  __device__ Tile tile(int t, int rank) const {
    const auto part = cuts.at(t);
    const auto at = walk.at(part.pair);
    const DigitPlace begin = begin_of<W>(at.row, at.column, rank);
    return {begin.row,  begin.column, at.batch,
            part.first, part.steps,   part.of_cut < 0 ? -1 : part.of_cut * W::kCluster + rank};
  }
  template <class W>
  __device__ int steps(const Tile& tile) const {
    return tile.steps;
  }

  __device__ bool has_rows(const Tile& tile, int group) const {
    return tile.row + group * 64 < places;
  }

  // One thread: all stages of a tile, of this block's part.
  template <class W>
  __device__ void bring(const CUtensorMap& map_image, const CUtensorMap& map_filters,
                        const Tile& tile, int rank, DigitRing<W>& ring) const {
    constexpr std::uint16_t kBoth = 3, kRows = W::kShareRows ? kBoth : 0,
                            kColumns = W::kShareRows ? 0 : kBoth;
    const int row = W::kShareRows ? rank * W::kOwnRows : 0,
              column = W::kShareRows ? 0 : rank * W::kOwnColumns;
    const auto start = windows.start(tile.row + row);
    const int group = tile.group * windows.blocks * W::kBlock * kDigits;
    conv_detail::WalkedBlocks blocks(windows, tile.first);
#pragma unroll 1
    for (int s = tile.first; s < tile.first + tile.steps; ++s, blocks.next(), ring.turn.next()) {
      const auto from = blocks.at();
      std::uint64_t* const barrier = ring.take_free();
#pragma unroll
      for (int d = 0; d < kDigits; ++d) {
        copy_pixels(map_image, barrier, ring.rows(d) + row * W::kBlock,
                    group + from.channel * kDigits + d * W::kBlock, start.w, start.h, start.n,
                    from.move_w, from.move_h, kRows);
        copy_box(map_filters, barrier, ring.columns(d) + column * W::kBlock,
                 (s * kDigits + d) * W::kBlock, tile.column + column, tile.group, kColumns);
      }
    }
  }

  struct At {
    int n, i, j;  // n below 0: none
  };
  // A lane's places h = 0 and 1 of a tile.
  __device__ __forceinline__ auto place_of(const Tile& tile) const {
    const int first = tile.row + (static_cast<int>(threadIdx.x) / 32 - 4) * 16 +
                      static_cast<int>(threadIdx.x) % 32 / 4;
    return [this, first](int h) {
      const int at = first + 8 * h, over = at / windows.wide, n = over / windows.high;
      return at < places ? At{n, over - n * windows.high, at - over * windows.wide} : At{-1, 0, 0};
    };
  }

  template <class W>
  __device__ __forceinline__ void store(const DigitSums& sums, const Tile& tile) const {
    if (tile.cut_tile < 0) {
      round([&](int i) { return joined(sums, i); }, tile.group, tile.column, place_of(tile));
    } else {
      std::int64_t all[32];
      if (add(sums, tile, all))
        round([&](int i) { return all[i]; }, tile.group, tile.column, place_of(tile));
    }
  }

 private:
  // Adds a warp's sums to those of other cuts; true, and all of them, if they are the last.
  __device__ __forceinline__ bool add(const DigitSums& sums, const Tile& tile,
                                      std::int64_t (&all)[32]) const {
    const int thread = static_cast<int>(threadIdx.x) - 128;
    std::int64_t* const to = of_cuts.sums + std::int64_t{tile.cut_tile} * CutSums::kSums +
                             thread / 128 * (CutSums::kSums / 2) + thread % 128;
#pragma unroll
    for (int i = 0; i < 32; ++i)
      atomicAdd(reinterpret_cast<unsigned long long*>(to + i * 128),
                static_cast<unsigned long long>(joined(sums, i)));
    __threadfence();
    __syncwarp();
    unsigned before = 0;
    if (thread % 32 == 0)
      before = atomicAdd(of_cuts.added + tile.cut_tile * CutSums::kWarps + thread / 32, 1u);
    if (__shfl_sync(0xffffffffu, before, 0) + 1 < static_cast<unsigned>(cuts.cuts)) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < 32; ++i) all[i] = __ldcg(reinterpret_cast<const long long*>(to + i * 128));
    return true;
  }

  // 2^(e - 22), where that is a normal number: for e of -104 and more.
  static constexpr int kLeast = -104;
  static __device__ __forceinline__ float power(int e) {
    return __uint_as_float(static_cast<std::uint32_t>(e + 105) << 23);
  }

  // Stores the sums of a warp, sum_of(i) for i < 32, where they belong. Powers of two move a
  // rounded sum without rounding it again where any sum but 0, of 1 to 2^62, becomes a normal
  // number.
  template <class Sum, class PlaceOf>
  __device__ __forceinline__ void round(Sum sum_of, int group, int first_column,
                                        PlaceOf place_of) const {
    const int column = first_column + static_cast<int>(threadIdx.x) % 4 * 2;
    const int* const filters = of_filters + std::int64_t{group} * rows;
    const auto column_of = [&](int c) { return column + c / 2 * 8 + c % 2; };
    float powers[16];
    int least = INT_MAX, most = INT_MIN;
#pragma unroll
    for (int c = 0; c < 16; ++c) {
      const int e = filters[min(column_of(c), rows - 1)];
      least = min(least, e), most = max(most, e), powers[c] = power(e);
    }
    const std::int64_t channel0 = (std::int64_t{group} * rows + column) * channel;
    const bool whole = first_column + 64 <= rows;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const At at = place_of(h);
      if (at.n < 0) break;
      float* to = out + at.n * image + at.i * line + at.j * place + channel0;
      const int e = of_images[std::int64_t{at.n} * groups + group];
      const auto store_all = [&](auto value, bool all) {
#pragma unroll
        for (int c = 0; c < 16; ++c) {
          if (all || column_of(c) < rows) *to = value(c, sum_of(c / 2 * 4 + 2 * h + c % 2));
          to += c % 2 == 0 ? channel : 7 * channel;
        }
      };
      const auto usual = [&](int c, std::int64_t sum) {
        return __ll2float_rn(sum) * (power(e) * powers[c]);
      };
      const int n_least = math::exact::exponent_of_sum(e, least),
                n_most = math::exact::exponent_of_sum(e, most);
      if (min(e, least) < kLeast || n_least < -126 || n_most > 65)
        store_all(
            [&](int c, std::int64_t sum) {
              const int of_column = filters[min(column_of(c), rows - 1)];
              return odd_sum(sum, math::exact::exponent_of_sum(e, of_column));
            },
            false);
      else if (whole)
        store_all(usual, true);
      else
        store_all(usual, false);
    }
  }
};

}  // namespace planck::conv_device
