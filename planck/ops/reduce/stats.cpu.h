// var and logsumexp: blocks of elements, joined (blocks.math.h).
#pragma once

#include <algorithm>

#include "planck/ops/reduce/column_range.h"
#include "planck/ops/reduce/reduce.loops.h"
#include "planck/ops/reduce/stats.loops.h"

namespace planck {

template <template <class> class S, class C>
class Stats {
 public:
  using A = S<C>;

  A row(const Source& from, std::int64_t n) const { return stat_loops<S, C>().row(from, n); }
  A all(A* values, std::int64_t n) const {
    Counter counter;
    for (std::int64_t i = 0; i < n; ++i) counter.add(values[i]);
    return counter.result();
  }
  void columns(const ColumnRange& x, A* out) const {
    constexpr int kRows = static_cast<int>(reduce_math::kStatBlock);
    const void* rows[kRows];
    A found[kReduceColumns];
    Counter counters[kReduceColumns];
    int held = 0;
    const auto flush = [&] {
      stat_loops<S, C>().columns(rows, held, x.dtype, x.ahead(kReduceRows), x.n, found);
      for (int j = 0; j < x.n; ++j) counters[j].add(found[j]);
      held = 0;
    };
    x.each([&](const void* row) {
      rows[held++] = row;
      if (held == kRows) flush();
    });
    if (held > 0) flush();
    for (int j = 0; j < x.n; ++j) out[j] = counters[j].result();
  }
  void down(const A* values, std::int64_t groups, std::int64_t count, int n, A* out) const {
    for (int j = 0; j < n; ++j) {
      Counter counter;
      for (std::int64_t i = 0; i < count; ++i) counter.add(values[i * groups + j]);
      out[j] = counter.result();
    }
  }

 private:
  using Counter = reduce_math::JoinCounter<JoinStats, A>;
};

}  // namespace planck
