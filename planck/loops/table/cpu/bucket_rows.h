// Sums of the rows of a bucket where it is known at which entry each row ends: one loop over every
// row of the table, hit or not. For rows of kBucketWidth elements that are written past the caches.
//
// Most rows of a large table have no entry or one, in no order that a branch predictor could learn.
// Both are a copy: of zeros, or of the entry's row.
//
// What decides is how rows are prefetched. Gathering 2^20 rows of 256 bytes, one thread, ms:
//   one prefetch before each sum, whatever the distance   21
//   16 prefetches, then 16 sums                           16
//   64                                                    13
//   128 or 256                                            12
//   1,024                                                 17
//   rows in order                                         11
// With a row written for each, 22 and 19 ms.
#pragma once

#include "planck/loops/table/cpu/short_rows.h"

namespace planck {

inline constexpr int kBucketWidth = 64;
inline constexpr std::int64_t kBucketAheadBytes = 32768;  // rows prefetched at once

// Rows of a bucket in progress.
template <class U>
struct BucketRun {
  const Entry<U>* entries;  // of all buckets
  std::int64_t begin;       // of the bucket's entries
  const U* ends;            // [row of the bucket] where its entries end, counted from begin
  std::int64_t first_row, end_row;
  std::int64_t end;    // rows whose entries begin before it; up to end_row where all do
  std::int64_t last;   // no entry may be read from here on
  std::int64_t most;   // entries of a row that is summed here
  std::int64_t next;   // the next row
  std::int64_t asked;  // the rows of entries before it have been prefetched

  std::int64_t begin_of(std::int64_t row) const {
    return begin + (row == first_row ? 0 : static_cast<std::int64_t>(ends[row - first_row - 1]));
  }
  std::int64_t end_of(std::int64_t row) const {
    return begin + static_cast<std::int64_t>(ends[row - first_row]);
  }
};

bool fits_bucket_rows(const ShortRows& job);

// Writes every row up to the last one, or up to one with too many entries; returns whether there is
// such a row.
bool sum_bucket_rows(const ShortRows& job, BucketRun<std::uint32_t>& run);
bool sum_bucket_rows(const ShortRows& job, BucketRun<std::uint64_t>& run);

// The sum of 1 to 64² rows, in the compute type of their dtype. Entries up to `end` may be read, to
// prefetch their rows.
void sum_bucket_row(const ShortRows& job, const Entry<std::uint32_t>* entries, std::int64_t m,
                    const Entry<std::uint32_t>* end, void* sum);
void sum_bucket_row(const ShortRows& job, const Entry<std::uint64_t>* entries, std::int64_t m,
                    const Entry<std::uint64_t>* end, void* sum);

}  // namespace planck
