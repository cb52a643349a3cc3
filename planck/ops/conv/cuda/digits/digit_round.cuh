// Sums of digits to f32 for tiles that end often: a warp's, of 16 rows by 64 columns, are rounded
// once and stored where they belong, by exponents that were asked for before the tile was
// multiplied and come from other lanes' registers, not from memory. (Tiles of digit_tiles.cuh,
// which end seldom and have fewer registers to spare, were slower with it.)
#pragma once

#include <climits>

#include "planck/ops/conv/cuda/digits/digit_tiles.cuh"

namespace planck::conv_device {

// Columns of a lane, of 64: those of its sums c / 2 * 4 + 2 h + c % 2 for c < 16, of rows h = 0, 1.
__device__ __forceinline__ int lane_column(int c) {
  return static_cast<int>(threadIdx.x) % 4 * 2 + c / 2 * 8 + c % 2;
}

// What a lane needs at the end of a tile.
struct TileEnd {
  float* to[2];       // where its first column of a row is stored; null where there is no row
  int of_rows;        // their exponent
  int of_columns[2];  // exponents of columns l and l + 32, for lane l
  int columns;        // that are there, of 64

  __device__ TileEnd(const int* of_columns_, int count) : to{}, of_rows(0), columns(count) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      of_columns[i] = of_columns_[min(static_cast<int>(threadIdx.x) % 32 + 32 * i, count - 1)];
  }
};

// Stores sum_of(i), i < 32, in columns that lie `step` apart. Powers of two move a rounded sum
// without rounding it again where any sum but 0, of 1 to 2^62, becomes a normal number.
template <class Sum>
__device__ __forceinline__ void store_rounded(Sum sum_of, const TileEnd& end, std::int64_t step) {
  // 2^(e - 22), where that is a normal number: for e of -104 and more; e of any.
  constexpr int kLeast = -104, kMoved = 105;
  const auto power = [](int e) {
    return __uint_as_float(static_cast<std::uint32_t>(e + kMoved) << 23);
  };
  const auto of_power = [](float p) { return (__float_as_int(p) >> 23) - kMoved; };
  float powers[16];
  int least = INT_MAX, most = INT_MIN;
#pragma unroll
  for (int c = 0; c < 16; ++c) {
    const int e = __shfl_sync(0xffffffffu, end.of_columns[c / 8], lane_column(c) % 32);
    least = min(least, e), most = max(most, e), powers[c] = power(e);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (end.to[h] == nullptr) break;
    const int e = end.of_rows;
    const auto store_all = [&](auto value, bool all) {
      float* to = end.to[h];
#pragma unroll
      for (int c = 0; c < 16; ++c) {
        if (all || lane_column(c) < end.columns)
          *to = value(powers[c], sum_of(c / 2 * 4 + 2 * h + c % 2));
        to += c % 2 == 0 ? step : 7 * step;
      }
    };
    const auto usual = [&](float of_column, std::int64_t sum) {
      return __ll2float_rn(sum) * (power(e) * of_column);
    };
    const int n_least = math::exact::exponent_of_sum(e, least),
              n_most = math::exact::exponent_of_sum(e, most);
    if (min(e, least) < kLeast || n_least < -126 || n_most > 65)
      store_all(
          [&](float of_column, std::int64_t sum) {
            return odd_sum(sum, math::exact::exponent_of_sum(e, of_power(of_column)));
          },
          false);
    else if (end.columns >= 64)
      store_all(usual, true);
    else
      store_all(usual, false);
  }
}

}  // namespace planck::conv_device
