// var and logsumexp: chunks of 512 elements, joined (reduce.math.h).
#pragma once

#include <algorithm>
#include <bit>

#include "planck/math/reduction.h"
#include "planck/ops/reduce/cpu/column_range.h"
#include "planck/ops/reduce/cpu/stats_loops.h"
#include "planck/ops/reduce/cpu/task.h"

namespace planck {

inline constexpr int kStatColumns = 1024;  // of a task
constexpr std::int64_t stat_rows(std::int64_t groups, std::int64_t length) {
  return column_rows(groups, length, kStatColumns, reduce_math::kStatChunk);
}

template <template <class> class S, class C>
class Stats {
 public:
  using A = S<C>;
  static constexpr int kColumns = kStatColumns;

  static std::int64_t rows(std::int64_t groups, std::int64_t length) {
    return stat_rows(groups, length);
  }
  A row(const Source& from, std::int64_t n) const { return loops_.row(from, n); }
  A all(const A* values, std::int64_t n) const {
    reduce_math::JoinCounter<JoinStats, A> counter;
    for (std::int64_t i = 0; i < n; ++i) counter.add(values[i]);
    return counter.result();
  }
  void columns(const ColumnRange& x, A* out) const {
    const void* rows[kRows];
    int held = 0;
    Counter chunks(loops_, x.n, out);
    const auto flush = [&] {
      loops_.columns(rows, held, x.dtype, x.n, out);
      chunks.add();
      held = 0;
    };
    x.each([&](const void* row) {
      rows[held++] = row;
      if (held == kRows) flush();
    });
    if (held > 0) flush();
    chunks.finish();
  }
  void down(const A* values, std::int64_t groups, std::int64_t count, int n, A* out) const {
    Counter chunks(loops_, n, out);
    for (std::int64_t i = 0; i < count; ++i) {
      std::copy_n(values + i * groups, n, out);
      chunks.add();
    }
    chunks.finish();
  }

 private:
  static constexpr int kRows = static_cast<int>(reduce_math::kStatChunk);

  // Joins values of n columns that appear in `out` one after the other: a binary counter.
  class Counter {
   public:
    Counter(const StatLoops<S, C>& loops, int n, A* out) : loops_(loops), n_(n), out_(out) {}
    void add() {
      int k = 0;
      for (; (count_ >> k) & 1; ++k) loops_.join(n_, digits_[k], out_);
      std::copy_n(out_, n_, digits_[k]);
      ++count_;
    }
    void finish() {
      int k = std::countr_zero(count_);
      std::copy_n(digits_[k], n_, out_);
      for (++k; (count_ >> k) != 0; ++k)
        if ((count_ >> k) & 1) loops_.join(n_, digits_[k], out_);
    }

   private:
    const StatLoops<S, C>& loops_;
    int n_;
    A* out_;
    std::uint64_t count_ = 0;
    A digits_[24][kColumns];
  };

  const StatLoops<S, C>& loops_ = stat_loops<S, C>();
};

}  // namespace planck
