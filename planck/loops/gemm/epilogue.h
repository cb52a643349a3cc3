// What follows a product, where it lies. The order and the rounding are those of
// planck/math/activation.h.
#pragma once

#include <cstdint>

#include "planck/core/activation.h"

namespace planck::gemm {

// What is added to elements of C: element (r, c) gets the one that lies r * row + c * column
// elements on, of C's dtype.
struct Added {
  const void* data = nullptr;  // null: none
  std::int64_t row = 0, column = 0;
  Added transposed() const { return {data, column, row}; }
};

struct Epilogue {
  Added bias;  // the same for all rows, or all columns, of all batches
  Activation activation = Activation::none;
  Added residual;  // its batches: operand 3 of Batches

  bool any() const { return bias.data != nullptr || follows_bias(); }
  bool follows_bias() const { return activation != Activation::none || residual.data != nullptr; }
  Epilogue transposed() const { return {bias.transposed(), activation, residual.transposed()}; }
};

}  // namespace planck::gemm
