// The loops of row-wise CPU kernels: a function of up to three operands and of what a row shares,
// over a portion of up to kPortion elements.
#pragma once

#include "planck/loops/cpu/portions.h"
#include "planck/loops/rows/functions.h"

namespace planck {

enum class RowMap : std::uint8_t {
  exponential,
  term,
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

inline constexpr int kRowRoom = 32;                // lanes of the two widest vectors
inline constexpr int kRowBatch = 64;               // rows that a loop takes at most
inline constexpr std::int64_t kKeptRow = 1 << 14;  // exponentials that softmax keeps

template <class C>
struct Exponentials {
  C largest, sum;  // of x, and of exp(x - largest), or of e(x - center) (math/exp_terms.h)
};

template <class C>
struct RowLoops {
  // n <= kPortion dense elements of each operand that the function takes, the others null.
  void (*map)(RowMap, const Source* (&operands)[3], int n, const row_math::Shared<C>&, C* out);
  // Computed values to dense memory, NaN made canonical.
  void (*put)(const C* values, int n, const Sink& to);

  // Dense rows of one dtype from memory to memory, without arrays between the steps; null where the
  // instruction set or C has none. n > 0 elements. `ahead`: prefetch so many bytes ahead.
  //
  // The canonical sum of the first operand, or of a product.
  C (*sum)(RowMap, Dtype, const void* const (&)[2], std::int64_t n, std::int64_t ahead) = nullptr;
  // A function that gives a result, to memory, NaN made canonical.
  void (*write)(RowMap, const void* const (&)[2], std::int64_t n, const row_math::Shared<C>&,
                const Sink& to) = nullptr;
  // Of rows one after the other; the first elements of those that follow are prefetched.
  void (*exponentials)(Dtype, const void* x, int rows, std::int64_t n,
                       Exponentials<C>* each) = nullptr;
  void (*terms)(Dtype, const void* x, int rows, std::int64_t n, Exponentials<C>* each) = nullptr;
  // The same; n <= kKeptRow.
  void (*softmax)(const void* x, std::int64_t rows, std::int64_t n, const Sink& to) = nullptr;
};

template <class C>
const RowLoops<C>& row_loops();

}  // namespace planck
