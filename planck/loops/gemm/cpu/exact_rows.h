// ProductMath::exact on the CPU: rows to integers in the forms that tiles multiply, and exact sums
// to f32. planck/math/products/exact_product.h has the definition.
//
// Integers q have 23 bits with their sign. As words for tiles:
//
//   f64     q itself: a sum of 256 products stays below 2^53
//   shorts  q = 4096 high + low: high, low and high + low, two of k to a word. Three products of
//           16 bits give all four: Σ q q' = 2^24 H + 2^12 (S - H - L) + L
//   bytes   the digits of exact_product.h, 64 of k to a row of an AMX tile
#pragma once

#include <cstdint>

#include "planck/loops/gemm/cpu/pack.h"

namespace planck::gemm {

inline constexpr int kMostScales = 128;

// x · first · second for each row is q before it is rounded; two factors, since one may be past the
// largest f32. keep: 0 for rows with NaN or infinities, whose elements count as 0; else -1.
struct RowScales {
  float first[kMostScales], second[kMostScales];
  std::int32_t keep[kMostScales];
};
void set_scales(const std::int32_t* exponents, std::int64_t rows, RowScales& scales);

struct ExactOps {
  // The largest magnitude, as bits, of each of `count` rows of k elements.
  void (*largest)(const Side&, std::int64_t count, std::int64_t k, std::uint32_t* out);
  // q of values [k][width], whose scales begin at row `row`; also as f64.
  void (*round_columns)(const float* values, int k, int width, const RowScales&, int row,
                        std::int32_t* q);
  void (*round_to_f64)(const float* values, int k, int width, const RowScales&, int row, double* q);
  // q of one row of k.
  void (*round_row)(const float* values, int k, float first, float second, std::int32_t* q);
  // q [k][width] as shorts: out[form][(k + 1) / 2][width], forms form_step words apart.
  void (*to_shorts)(const std::int32_t* q, int k, int width, std::int32_t* out,
                    std::int64_t form_step);
  // Digits: of a row q [k] to out[digit][k], 1 KiB between digits; of q [k][16], k a multiple of
  // 4, to out[digit][k / 4][16][4].
  void (*row_to_bytes)(const std::int32_t* q, int k, std::int8_t* out);
  void (*columns_to_bytes)(const std::int32_t* q, int k, std::int8_t* out);
  // Sums of n elements as int64, or added to those: from f64, from shorts' products and from
  // digits' products, each form n words apart.
  void (*from_f64)(const double* sums, int n, bool add, std::int64_t* out);
  void (*from_shorts)(const std::int32_t* sums, int n, bool add, std::int64_t* out);
  void (*from_bytes)(const std::int32_t* sums, int n, bool add, std::int64_t* out);
  // One row of C, rounded once.
  void (*finish)(const std::int64_t* sums, int n, int row_exponent, const std::int32_t* exponents,
                 float* out);
};

// For the best instruction set this CPU has.
const ExactOps& exact_ops();

}  // namespace planck::gemm
