// How CPU reductions are cut into tasks: by shape alone, at multiples of a power of two elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "planck/loops/rows/cpu/reduce.h"

namespace planck {

inline constexpr std::int64_t kReduceTask = 1 << 16;  // elements worth a task

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t row_chunks(std::int64_t length) {
  return std::max<std::int64_t>(1, ceil_div(length, kReduceTask));
}

// Rows of a chunk of columns, which are joined `columns` at a time: at least `rows`, a power of
// two.
constexpr std::int64_t column_rows(std::int64_t groups, std::int64_t length,
                                   std::int64_t columns = kReduceColumns,
                                   std::int64_t rows = kReduceRows) {
  const std::int64_t across = std::min(groups, columns);
  while (rows * across < 4 * kReduceTask && rows < length && rows < (1 << 20)) rows *= 2;
  return rows;
}

}  // namespace planck
