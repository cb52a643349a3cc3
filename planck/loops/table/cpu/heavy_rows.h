// Rows with so many entries that several threads sum one of them.
#pragma once

#include "planck/loops/parallel.h"
#include "planck/loops/table/cpu/bucket_rows.h"
#include "planck/loops/table/cpu/row_sums.h"

namespace planck {

template <class C, class U>
class HeavyRows {
 public:
  // count: entries of all rows together.
  HeavyRows(std::int64_t count, std::int64_t width, Parts& parts)
      : width_(width),
        unit_(count <= kFewEntries ? kSumChunk : kSumChunk * kSumChunk),
        threshold_(count <= kFewEntries ? 8 * kSumChunk : kSumChunk * kSumChunk),
        most_(count / (threshold_ + 1)),
        list_(parts.take<Row>(most_)),
        partials_(parts.take<C>(most_ == 0 ? 0 : (count / unit_ + most_) * width)) {}

  // A row with more entries than this is heavy.
  std::int64_t threshold() const { return threshold_; }

  // Not for several threads at once. divisor: 0 for none.
  void add(const Entry<U>* entries, std::int64_t m, std::int64_t row, C divisor) {
    list_[rows_++] = {entries, m, row, divisor, units_};
    units_ += (m + unit_ - 1) / unit_;
  }

  // bucket_rows: the job that reads the same rows, where they fit it.
  void run(const Stream& stream, const RowReader<C>& reader, const RowWriter<C>& writer,
           const ShortRows* bucket_rows = nullptr) const {
    if (rows_ == 0 || width_ == 0) return;
    const std::int64_t portions = (width_ + kPortion - 1) / kPortion;
    parallel_for(stream, units_ * portions, [&](std::int64_t task) {
      SumBuffers<C> b;
      const std::int64_t unit = task / portions, column = task % portions * kPortion;
      const int n = static_cast<int>(std::min<std::int64_t>(kPortion, width_ - column));
      const Row& row = row_of(unit);
      const std::int64_t begin = (unit - row.first_unit) * unit_;
      const Entry<U>* entries = row.entries + begin;
      const std::int64_t m = std::min<std::int64_t>(unit_, row.count - begin);
      const Entry<U>* end = row.entries + row.count;
      if (bucket_rows != nullptr)
        return sum_bucket_row(*bucket_rows, entries, m, end, partials_ + unit * width_);
      sum_entries(reader, entries, m, end, column, n, b);
      std::copy_n(b.sum, n, partials_ + unit * width_ + column);
    });
    const std::int64_t strips = (width_ + kStrip - 1) / kStrip;
    parallel_for(stream, rows_ * strips, [&](std::int64_t task) {
      const std::int64_t column = task % strips * kStrip;
      finish(list_[task / strips], column,
             static_cast<int>(std::min<std::int64_t>(kStrip, width_ - column)), writer);
    });
  }

 private:
  static constexpr std::int64_t kFewEntries = 1 << 16;
  static constexpr std::int64_t kStrip = 256;

  struct Row {
    const Entry<U>* entries;
    std::int64_t count, row;
    C divisor;
    std::int64_t first_unit;
  };

  const Row& row_of(std::int64_t unit) const {
    return *(std::upper_bound(list_, list_ + rows_, unit,
                              [](std::int64_t u, const Row& r) { return u < r.first_unit; }) -
             1);
  }

  // Each 64 partial sums become one, in place, until one is left.
  void finish(const Row& row, std::int64_t column, int n, const RowWriter<C>& writer) const {
    SumBuffers<C> b;
    C* partials = partials_ + row.first_unit * width_ + column;
    for (std::int64_t left = (row.count + unit_ - 1) / unit_; left > 0;
         left = left == 1 ? 0 : sum_chunks(left))
      for (std::int64_t chunk = 0; chunk < sum_chunks(left); ++chunk) {
        const std::int64_t begin = chunk * kSumChunk;
        const std::int64_t end = std::min<std::int64_t>(left, begin + kSumChunk);
        for (std::int64_t k = begin; k < end; ++k) {
          const void* partial = partials + k * width_;
          row_ops<C>().add_rows(dtype_of<C>, &partial, 1, n, k == begin, b.sum);
        }
        std::copy_n(b.sum, n, partials + chunk * width_);
      }
    if (row.divisor != 0) row_ops<C>().divide(row.divisor, n, b.sum);
    writer.write(row.row, column, n, b);
  }

  std::int64_t width_, unit_, threshold_, most_;
  Row* list_;
  C* partials_;
  std::int64_t rows_ = 0, units_ = 0;
};

}  // namespace planck
