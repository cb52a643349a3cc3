// The valid entries of a list of indices, sorted by row and, within a row, by position.
//
// Rows are cut into buckets of a power of two. Segments of the list are counted and scattered to
// buckets side by side, each segment behind the ones before it, so that order within a bucket is
// kept; then every bucket is sorted for itself, in the cache, or by several threads where a few
// rows fill it. No thread looks at more than its own segments and buckets, and every cut follows
// from shape and data alone.
#pragma once

#include "planck/loops/parallel.h"
#include "planck/ops/embedding/embedding.math.h"
#include "planck/ops/embedding/entries.cpu.h"

namespace planck {

template <class U>
struct SortedEntries {
  Entry<U>* entries;           // of all buckets, one behind the other
  const std::int64_t* starts;  // [buckets + 1] into entries
  std::int64_t buckets;
  int row_bits;  // a bucket has 2^row_bits rows

  std::int64_t first_row(std::int64_t bucket) const { return bucket << row_bits; }
};

// How a problem is cut, and what that takes.
struct SortCut {
  std::int64_t rows, count;
  std::int64_t buckets, segments;
  int row_bits, passes;

  // row_bytes: what is written for each of `rows` rows even where no entry has it; 0 for nothing.
  SortCut(std::int64_t rows, std::int64_t count, std::int64_t row_bytes);
  std::int64_t segment_begin(std::int64_t s) const {
    return count / segments * s + std::min(s, count % segments);
  }
};

template <class U>
class EntrySorter {
 public:
  EntrySorter(const SortCut& cut, Parts& parts)
      : cut_(cut),
        entries_{parts.take<Entry<U>>(cut.count),
                 parts.take<Entry<U>>(cut.passes > 0 ? cut.count : 0)},
        places_(parts.take<std::int64_t>(cut.buckets * cut.segments)),
        bad_(parts.take<std::int64_t>(cut.segments)),
        starts_(parts.take<std::int64_t>(cut.buckets + 1)) {}

  // Counts and scatters the valid entries at positions [first, last); returns the number of indices
  // outside of the table, at any position.
  std::int64_t scatter(const Stream& stream, const IndexReader& indices, std::int64_t padding,
                       std::int64_t first, std::int64_t last);
  // After scatter: sorts every bucket.
  void sort(const Stream& stream) const;
  SortedEntries<U> sorted() const {
    return {entries_[cut_.passes % 2], starts_, cut_.buckets, cut_.row_bits};
  }

 private:
  struct Pass;
  void sort_bucket(std::int64_t bucket) const;
  void sort_large_bucket(const Stream& stream, std::int64_t bucket) const;

  SortCut cut_;
  Entry<U>* entries_[2];
  std::int64_t* places_;  // [segment][bucket]: where the segment's next entry of the bucket goes
  std::int64_t* bad_;
  std::int64_t* starts_;
};

}  // namespace planck
