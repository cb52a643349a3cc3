// ProductMath::tensor_core on the CPU: panels of C whose sums follow planck/math/products/
// tensor_core.h bit for bit, lanes over the columns of C.
//
// Operands are numbers of the format, as f32, with the exponent of each beside it. Where the
// largest exponent E of a block is ordinary, terms are products in f32, which are exact then, times
// 2^(25 - E), truncated to integers by a conversion: five instructions for a vector of them.
// Columns for which it is not (E above 120 or below -100; NaN, Inf) take the formula itself.
#pragma once

#include <cstdint>

#include "planck/core/dtype.h"

namespace planck::gemm {

// Exponents of what is no number of the usual kind. Any sum of one with others is recognized:
// terms that are zero lie below kNoTerm, those that are not finite above 120.
inline constexpr int kExponentOfZero = -600, kNoTerm = -400, kExponentOfSpecial = 2000;

// Adds rows × columns products, k ascending, to sums [row][columns of a panel].
struct TensorCoreBlock {
  Dtype dtype;                     // bf16, f16; f32 is TF32
  const float* a;                  // [row][k]
  const std::int32_t* a_exponent;  // [row][k], twice in a word
  std::int64_t rows;
  const float* b;                  // [k][columns]
  const std::int16_t* b_exponent;  // [k][columns]
  std::int64_t k;                  // a multiple of 16, but for the last
  float* sums;
  bool continues;  // add to the sums as they are; else they start at +0
  bool last;       // no further k: NaN becomes the canonical one
};

struct TensorCoreOps {
  int columns;  // of a panel
  // Exponents of n numbers; f32 is cut to TF32 in place.
  void (*prepare_a)(Dtype, float* values, std::int64_t n, std::int32_t* exponents);
  void (*prepare_b)(Dtype, float* values, std::int64_t n, std::int16_t* exponents);
  void (*multiply)(const TensorCoreBlock&);
};

// For the best instruction set this CPU has.
const TensorCoreOps& tensor_core_ops();

inline constexpr int kMostTensorCoreColumns = 32;  // of all instruction sets

}  // namespace planck::gemm
