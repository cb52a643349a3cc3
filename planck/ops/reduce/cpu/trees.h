// Sums, products and extremes: elements lifted and joined as trees
// (planck/loops/rows/cpu/reduce.h). Down the columns eight rows at a time are joined, then these as
// a binary counter.
#pragma once

#include <algorithm>

#include "planck/ops/reduce/cpu/column_range.h"
#include "planck/ops/reduce/cpu/task.h"

namespace planck {

template <class C, class A>
class Trees {
 public:
  static constexpr int kColumns = kReduceColumns;
  static std::int64_t rows(std::int64_t groups, std::int64_t length) {
    return column_rows(groups, length);
  }

  Trees(const ReduceLoops<C, A>& loops, const ReduceStep<C>& step) : loops_(loops), step_(step) {}

  A row(const Source& from, std::int64_t n) const { return loops_.row(step_, from, n, C(0)); }
  A all(A* values, std::int64_t n) const {
    return reduce_sums<A>().row({step_.join, Lift::plain}, {values, dtype_of<A>}, n, A(0));
  }
  void columns(const ColumnRange& x, A* out) const { join_rows(loops_, step_, x, out); }
  void down(const A* values, std::int64_t groups, std::int64_t count, int n, A* out) const {
    Walk walk;
    walk.extent[0] = count;
    walk.stride[0] = groups;
    join_rows<A>(reduce_sums<A>(), {step_.join, Lift::plain},
                 {values, dtype_of<A>, walk, 0, count, n}, out);
  }

 private:
  static constexpr int kDigits = 24;

  template <class T>
  static void join_rows(const ReduceLoops<T, A>& loops, const ReduceStep<T>& step,
                        const ColumnRange& x, A* out) {
    alignas(64) A digits[kDigits][kReduceColumns], sum[kReduceColumns];
    Source rows[kReduceRows];
    int held = 0;
    std::uint64_t chunks = 0;
    const auto flush = [&] {
      const auto to = [&](int k) { return (chunks >> k) & 1 ? sum : digits[k]; };
      loops.columns(step, rows, held, x.n, to(0));
      for (int k = 0; (chunks >> k) & 1; ++k) loops.join(step.join, x.n, digits[k], sum, to(k + 1));
      ++chunks;
      held = 0;
    };
    x.each([&](const void* row) {
      rows[held++] = {row, x.dtype, x.ahead(kReduceRows)};
      if (held == kReduceRows) flush();
    });
    if (held > 0) flush();
    bool any = false;
    for (int k = 0; (chunks >> k) != 0; ++k) {
      if (!((chunks >> k) & 1)) continue;
      if (!any)
        std::copy_n(digits[k], x.n, out);
      else
        loops.join(step.join, x.n, digits[k], out, out);
      any = true;
    }
  }

  const ReduceLoops<C, A>& loops_;
  ReduceStep<C> step_;
};

}  // namespace planck
