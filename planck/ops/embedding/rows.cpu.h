// Loops over the elements of rows, at most kBlock at a time, for the best instruction set of this
// CPU. C is the compute type.
#pragma once

#include "planck/loops/blocks.h"

namespace planck {

inline constexpr int kRowsAtOnce = 4;

template <class C>
struct RowOps {
  // sum = ((sum + rows[0]) + rows[1]) + …, starting with rows[0] where `first`. Rows are dense, of
  // dtype; 1 to kRowsAtOnce of them.
  void (*add_rows)(Dtype dtype, const void* const* rows, int count, int n, bool first, C* sum);
  void (*multiply)(C factor, int n, C* values);
  void (*divide)(C divisor, int n, C* values);
  // Where a later row exceeds the largest so far, takes its value and its position.
  void (*take_largest)(const C* row, std::int64_t position, int n, C* largest,
                       std::int64_t* positions);
  // Stores values with every NaN the canonical one; overwrites them.
  void (*store)(int n, C* values, const Sink& to);
  // The canonical pairwise sum of a[i] * b[i]; overwrites a.
  C (*dot)(int n, C* a, const C* b);
};

template <class C>
const RowOps<C>& row_ops();

// Bytes of whole rows, past the caches where `stream` and both ends allow.
struct ByteOps {
  void (*copy)(void* to, const void* from, std::size_t bytes, bool stream);
  void (*zero)(void* to, std::size_t bytes, bool stream);
};
const ByteOps& byte_ops();

}  // namespace planck
