// y and dx of exact: windows of an image of digits, which the copy engine brings tap by tap
// (host/walk.h), by laid filters.
//
//   image    [n][h][w][group][block of channels][digit][channel of the block]
//   filters  [group][row][tap][block][digit][channel of the block]
#pragma once

#include "planck/ops/conv/cuda/digits/digit_tiles.cuh"
#include "planck/ops/conv/cuda/implicit.cuh"

namespace planck::conv_device {

struct WindowDigits {
  DigitWalk walk;  // rows are places, columns filters of y or channels of dx, batches groups
  WindowWalk windows;
  int places, rows, groups;
  float* out;
  std::int64_t image, line, place, channel;  // from one to the next in `out`
  const int *of_images, *of_filters;         // exponents

  template <class W>
  __device__ int steps(const DigitWalk::Tile&) const {
    return windows.taps * windows.blocks;
  }

  __device__ bool has_rows(const DigitWalk::Tile& tile, int group) const {
    return tile.row + group * 64 < places;
  }

  // One thread: all stages of a tile, of this block's part.
  template <class W>
  __device__ void bring(const CUtensorMap& map_image, const CUtensorMap& map_filters,
                        const DigitWalk::Tile& tile, int rank, DigitRing<W>& ring) const {
    constexpr std::uint16_t kBoth = 3, kRows = W::kShareRows ? kBoth : 0,
                            kColumns = W::kShareRows ? 0 : kBoth;
    const int row = W::kShareRows ? rank * W::kOwnRows : 0,
              column = W::kShareRows ? 0 : rank * W::kOwnColumns;
    const auto start = windows.start(tile.row + row);
    const int group = tile.batch * windows.blocks * W::kBlock * kDigits;
    int k = 0;
    windows.each_block([&](int channel, std::uint16_t move_h, std::uint16_t move_w, int) {
      std::uint64_t* const barrier = ring.take_free();
#pragma unroll
      for (int d = 0; d < kDigits; ++d, k += W::kBlock) {
        copy_pixels(map_image, barrier, ring.rows(d) + row * W::kBlock,
                    group + channel * kDigits + d * W::kBlock, start.w, start.h, start.n, move_w,
                    move_h, kRows);
        copy_box(map_filters, barrier, ring.columns(d) + column * W::kBlock, k,
                 tile.column + column, tile.batch, kColumns);
      }
      ring.turn.next();
    });
  }

  template <class W>
  __device__ __forceinline__ void store(const DigitSums& sums, const DigitWalk::Tile& tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first = tile.row + (static_cast<int>(threadIdx.x) / 32 - 4) * 16 + lane / 4;
    const int column = tile.column + lane % 4 * 2;
    const int* const filters = of_filters + std::int64_t{tile.batch} * rows;
    int exponents[16];
#pragma unroll
    for (int c = 0; c < 16; ++c)
      exponents[c] = filters[min(column + c / 2 * 8 + c % 2, rows - 1)] - 2 * math::exact::kBits;
    const std::int64_t channel0 = (std::int64_t{tile.batch} * rows + column) * channel;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = first + 8 * h;
      if (at >= places) break;
      const int over = at / windows.wide, n = over / windows.high;
      float* const place_out = out + n * image + (over - n * windows.high) * line +
                               (at - over * windows.wide) * place + channel0;
      const int of_image = of_images[std::int64_t{n} * groups + tile.batch];
      bool odd = false;
      float* to = place_out;
#pragma unroll
      for (int c = 0; c < 16; ++c) {
        const std::int64_t sum = joined(sums, c / 2 * 4 + 2 * h + c % 2);
        const float v = usual_sum(sum, of_image + exponents[c], odd);
        if (column + c / 2 * 8 + c % 2 < rows) *to = v;
        to += c % 2 == 0 ? channel : 7 * channel;
      }
      if (!odd) continue;
      to = place_out;
#pragma unroll
      for (int c = 0; c < 16; ++c) {
        const std::int64_t sum = joined(sums, c / 2 * 4 + 2 * h + c % 2);
        if (column + c / 2 * 8 + c % 2 < rows) *to = odd_sum(sum, of_image + exponents[c]);
        to += c % 2 == 0 ? channel : 7 * channel;
      }
    }
  }
};

}  // namespace planck::conv_device
