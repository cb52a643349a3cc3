// Sums of rows so short that the work around each of them counts: all but the rare row with many
// entries are summed by one loop, in one function, for the best instruction set of this CPU.
#pragma once

#include <cstddef>

#include "planck/core/dtype.h"
#include "planck/loops/table/cpu/entries.h"

namespace planck {

// Rows of a dense last axis, found by an entry's position, and where their sums go.
struct ShortRows {
  const std::int64_t* bag_of;  // the row by position; null where it is the position
  const std::byte* rows;
  std::byte* out;
  std::int64_t row_step, out_step;  // bytes from one row to the next
  Dtype dtype;
  int width;
  bool adds;           // adds to what is there
  bool streams;        // writes past the caches
  bool fills;          // zeros to rows of `out` that have no entry; they lie densely
  std::int64_t reach;  // rows are prefetched so many entries ahead
};

// A run of sorted entries in progress.
template <class U>
struct RowRun {
  const Entry<U>* entries;
  std::int64_t at, end;           // rows that begin in [at, end)
  std::int64_t stop;              // where entries of the last of them may end
  std::int64_t last;              // no entry may be read from here on
  std::int64_t next;              // the row behind the last one that has been written
  std::int64_t* place = nullptr;  // row-sparse: where in `out` the next row goes
  std::int64_t* rows = nullptr;   // and the list of rows, with its stride
  std::int64_t rows_step = 0;
};

// Goes on until the end, or up to a row with more than 64 entries.
void sum_short_rows(const ShortRows& job, RowRun<std::uint32_t>& run);
void sum_short_rows(const ShortRows& job, RowRun<std::uint64_t>& run);

}  // namespace planck
