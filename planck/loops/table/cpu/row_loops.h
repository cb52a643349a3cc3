// Loops over the elements of rows, at most kPortion at a time, for the best instruction set of this
// CPU. C is the compute type.
#pragma once

#include <algorithm>

#include "planck/loops/cpu/portions.h"

namespace planck {

inline constexpr int kRowsAtOnce = 4;

// Scattered rows are asked for 16 KiB ahead, into the second-level cache: requests to the first
// level wait for its few line buffers. Gathering a million rows of 256 bytes, one thread: 44 ms
// without, 41 ms into the first level, 26 ms into the second; rows in order take 28 ms.
inline constexpr int kToSecondLevel = 2;  // the locality of __builtin_prefetch
inline std::int64_t rows_ahead(std::int64_t row_bytes) {
  return std::clamp<std::int64_t>(16384 / (row_bytes + 1), 2, 64);
}

template <class C>
struct RowOps {
  // sum = ((sum + rows[0]) + rows[1]) + …, starting with rows[0] where `first`. Rows are dense, of
  // dtype; 1 to kRowsAtOnce of them.
  void (*add_rows)(Dtype dtype, const void* const* rows, int count, int n, bool first, C* sum);
  // The same of 1 to 64 rows, straight to memory of their dtype or of C, with every NaN the
  // canonical one. f16 only with sums_f16.
  void (*sum_rows)(Dtype dtype, const void* const* rows, int count, int n, const Sink& to);
  void (*multiply)(C factor, int n, C* values);
  void (*divide)(C divisor, int n, C* values);
  bool sums_f16;
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
  // Rows that lie anywhere, one behind the other; null for zeros.
  void (*copy_rows)(void* to, const std::byte* const* rows, std::int64_t count, std::int64_t bytes,
                    bool stream);
  void (*copy)(void* to, const void* from, std::size_t bytes, bool stream);
  void (*zero)(void* to, std::size_t bytes, bool stream);
};
const ByteOps& byte_ops();

}  // namespace planck
