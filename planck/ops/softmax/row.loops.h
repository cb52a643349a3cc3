// The loops of row-wise CPU kernels: a function of up to three operands and of what a row shares,
// over a block.
#pragma once

#include "planck/loops/blocks.h"
#include "planck/ops/softmax/row.math.h"

namespace planck {

enum class RowMap : std::uint8_t {
  exponential,
  scaled,
  softmax,
  log_softmax,
  product,
  softmax_backward,
  log_softmax_backward,
  entropy_backward,
  normalized,
  weighted,
  weighted_hat,
  hat_term,
  second,
  norm_backward,
};

template <class C>
struct RowLoops {
  // n <= kBlock dense elements of each operand that the function takes, the others null.
  void (*map)(RowMap, const Source* (&operands)[3], int n, const row_math::Shared<C>&, C* out);
  // Computed values to dense memory, NaN made canonical.
  void (*put)(const C* values, int n, const Sink& to);
};

template <class C>
const RowLoops<C>& row_loops();

}  // namespace planck
