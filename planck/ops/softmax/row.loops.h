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
  first,
  square,
};

inline constexpr int kRowRoom = 32;  // lanes of the two widest vectors

// A dense row of an operand; `otherwise` stands for every element of one that is not given.
// `ahead`: how many bytes on lies what will be wanted soon; 0: nothing is asked for.
template <class C>
struct RowInput {
  const void* data;
  C otherwise = 0;
  std::int64_t ahead = 0;
};

template <class C>
struct RowLoops {
  // n <= kBlock dense elements of each operand that the function takes, the others null.
  void (*map)(RowMap, const Source* (&operands)[3], int n, const row_math::Shared<C>&, C* out);
  // Computed values to dense memory, NaN made canonical.
  void (*put)(const C* values, int n, const Sink& to);

  // Dense rows of one dtype from memory to memory, without blocks between the steps; null where
  // the instruction set or C has none. n > 0 elements.
  //
  // The canonical sum of a function: product, weighted, weighted_hat, first, square.
  C(*sum)
  (RowMap, Dtype, const RowInput<C> (&)[3], std::int64_t n, const row_math::Shared<C>&) = nullptr;
  // The largest element, and the canonical sum of exp(x - largest); these go to `kept` where not
  // null, which has room for kRowRoom more, in an order that `scaled` knows.
  C (*exponentials)(Dtype, const RowInput<C>&, std::int64_t n, C* kept, C& largest) = nullptr;
  // A function that gives a result, to memory, NaN made canonical. scaled reads what was kept.
  void (*write)(RowMap, Dtype, const RowInput<C> (&)[3], std::int64_t n, const row_math::Shared<C>&,
                const Sink& to) = nullptr;
  // The sums of g = dy * weight and of g * xhat along a row, in one pass.
  void (*norm_sums)(Dtype, const RowInput<C> (&)[3], std::int64_t n, const row_math::Shared<C>&,
                    C (&sums)[2]) = nullptr;
  // Eight rows of n columns, each with its own `shared`: the sums down the rows of dy * xhat and of
  // dy, joined in pairs. Either result may be null.
  void (*norm_columns)(Dtype, const void* const (&x)[8], const void* const (&dy)[8],
                       const row_math::Shared<C> (&)[8], int n, C* hats, C* plain,
                       std::int64_t ahead) = nullptr;
};

template <class C>
const RowLoops<C>& row_loops();

}  // namespace planck
