// The valid entries of a list of indices, sorted by row and, within a row, by position.
//
// Rows are cut into buckets of a power of two, the list into segments. Every segment is sorted by
// bucket for itself, in the cache; then each bucket collects its entries from all segments, in
// their order, and is sorted, in the cache again, or by several threads where a few rows fill it.
// No thread looks at more than its own segments and buckets, and every cut follows from shape and
// data alone.
//
// Tried, ms for 2^20 indices of a million rows:
//   uniform, two threads: all segments counted, then scattered to where a
//     bucket lies among all entries, 2,048 buckets                          4.6 to 7.7
//     every segment for itself                                              3.7
//   Zipf, one thread, more than half of the entries go to the first bucket:
//     every segment from its beginning to its end                           3.3
//     both halves by turns                                                  2.8
#pragma once

#include "planck/loops/parallel.h"
#include "planck/loops/table/cpu/entries.h"
#include "planck/loops/table/table.math.h"

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
  bool row_ends;  // whether sorting says where each row's entries end

  // row_bytes: what is written per row, for each of `rows` rows, hit or not; 0 for nothing.
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
        scattered_(parts.take<Entry<U>>(cut.count)),
        entries_{parts.take<Entry<U>>(cut.count),
                 parts.take<Entry<U>>(cut.passes > 1 ? cut.count : 0)},
        runs_(parts.take<U>((cut.buckets + 1) * cut.segments)),
        places_(parts.take<U>(cut.count < kLargeBucket ? 0 : cut.segments << kDigitBits)),
        ends_(parts.take<U>(cut.row_ends ? cut.count / kLargeBucket << cut.row_bits : 0)),
        large_(parts.take<std::int64_t>(cut.row_ends ? cut.buckets : 0)),
        bad_(parts.take<std::int64_t>(cut.segments)),
        starts_(parts.take<std::int64_t>(cut.buckets + 1)) {}

  // Brings the valid entries at positions [first, last) of every segment to their buckets; returns
  // the number of indices outside of the table, at any position.
  std::int64_t scatter(const Stream& stream, const IndexReader& indices, std::int64_t padding,
                       std::int64_t first, std::int64_t last);

  // After scatter, every bucket is to be sorted: the large ones together, the others one by one, on
  // any thread.
  void sort_large(const Stream& stream) const;
  // ends: [rows of a bucket], set to where each row's entries end, counted from the bucket's first;
  // null: not wanted. With SortCut::row_ends only.
  void sort(std::int64_t bucket, U* ends = nullptr) const;
  const U* ends_of_large(std::int64_t bucket) const {
    return ends_ + (large_[bucket] << cut_.row_bits);
  }
  bool is_large(std::int64_t bucket) const {
    return starts_[bucket + 1] - starts_[bucket] >= kLargeBucket;
  }
  SortedEntries<U> sorted() const {
    return {entries_[(cut_.passes - 1) % 2], starts_, cut_.buckets, cut_.row_bits};
  }

  static constexpr int kDigitBits = 11;
  static constexpr std::int64_t kLargeBucket = 1 << 15;  // several threads sort one bucket

 private:
  struct Pass;
  // The entries of a bucket in a segment.
  struct Run {
    const Entry<U>*begin, *end;
  };
  Run run(std::int64_t bucket, std::int64_t segment) const {
    const U* at = runs_ + segment * (cut_.buckets + 1) + bucket;
    const Entry<U>* entries = scattered_ + cut_.segment_begin(segment);
    return {entries + at[0], entries + at[1]};
  }
  void sort_large_bucket(const Stream& stream, std::int64_t bucket) const;

  SortCut cut_;
  Entry<U>* scattered_;  // segment by segment
  Entry<U>* entries_[2];
  U* runs_;              // [segment][buckets + 1]: where a bucket's entries begin in the segment
  U* places_;            // [segment][digit], of one large bucket
  U* ends_;              // [large bucket][row of it]
  std::int64_t* large_;  // [bucket] which of the large ones it is
  std::int64_t* bad_;
  std::int64_t* starts_;
};

}  // namespace planck
