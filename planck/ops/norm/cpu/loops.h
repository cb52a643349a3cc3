// The vector loops of the CPU norms: dense rows of f32, f16 or bf16 from memory to memory.
#pragma once

#include <cstdint>

#include "planck/loops/cpu/portions.h"
#include "planck/loops/rows/functions.h"

namespace planck {

// Rows of one dtype, one after the other; a weight or a bias that is null is not there.
struct NormRows {
  Dtype dtype;
  const void *x, *dy, *weight, *bias;
  std::int64_t n;  // elements of a row, > 0
};

// Null where the instruction set or C has none. `shared` of each row: a is its mean, b its rstd.
template <class C>
struct NormLoops {
  // Up to kRowBatch rows: their means, where centered, and rstds, and the results. The rows that
  // follow are prefetched.
  void (*forward)(const NormRows&, int rows, bool centered, C eps, row_math::Shared<C>* shared,
                  const Sink& to) = nullptr;
  // Gradients of a row; c and d of its `shared` are computed here.
  void (*backward)(const NormRows&, bool centered, row_math::Shared<C>& shared,
                   const Sink& to) = nullptr;
  // Columns [column, column + n) of eight rows: the sums down the rows of dy * xhat and of dy,
  // joined in pairs. Either result may be null.
  void (*columns)(const NormRows&, const row_math::Shared<C> (&)[8], std::int64_t column, int n,
                  C* hats, C* plain) = nullptr;
};

template <class C>
const NormLoops<C>& norm_loops();

}  // namespace planck
