// How a CPU reduction is cut: at multiples of a power of two elements, whatever the number of
// threads, and what is cut is joined afterwards in the same order.
#pragma once

#include <algorithm>

#include "planck/loops/parallel.h"
#include "planck/ops/reduce/cpu/column_range.h"
#include "planck/ops/reduce/cpu/input.h"
#include "planck/ops/reduce/cpu/task.h"
#include "planck/ops/reduce/host/layout.h"

namespace planck {

// Work says what elements C become, values A:
//   kColumns, rows(groups, length)           of a task: columns, kPortion at most, and their rows
//   A row(const Source&, n)                  n > 0 dense elements
//   A all(A* values, n)                      joined; they may be overwritten
//   void columns(const ColumnRange&, A* out) a value for each column
//   void down(const A* values, groups, count, n, A* out)
//                                            out[j]: values[i * groups + j] for i < count, joined
template <class C, class A, class Work>
class Reduction {
 public:
  Reduction(const Stream& stream, const ReduceLayout& layout, const View& x, const Work& work,
            void* partials)
      : stream_(stream),
        layout_(layout),
        work_(work),
        partials_(static_cast<A*>(partials)),
        input_(x, layout.positions()) {}

  // Calls take(group, count, results) for consecutive groups, kPortion at most, from any thread.
  template <class Take>
  void run(const Take& take) const {
    if (layout_.columns)
      columns(take);
    else
      rows(take);
  }

 private:
  A part(std::int64_t begin, std::int64_t n) const {
    if (const void* at = input_.in_place(begin, n)) return work_.row({at, input_.x.dtype}, n);
    alignas(64) C buffer[kPortion];
    A values[kReduceTask / kPortion];
    int count = 0;
    for (std::int64_t i = 0; i < n; i += kPortion) {
      const int m = static_cast<int>(std::min<std::int64_t>(kPortion, n - i));
      values[count++] = work_.row(input_.gathered(begin + i, m, buffer), m);
    }
    return work_.all(values, count);
  }

  // result(group) for every group, several to a task where `each` elements of one are few.
  template <class Result, class Take>
  void each_group(std::int64_t each, const Result& result, const Take& take) const {
    const std::int64_t together = std::clamp<std::int64_t>(kReduceTask / each, 1, kPortion);
    parallel_for(stream_, ceil_div(layout_.groups, together), [&](std::int64_t task) {
      A results[kPortion];
      const std::int64_t first = task * together;
      const int count = static_cast<int>(std::min(together, layout_.groups - first));
      for (int g = 0; g < count; ++g) results[g] = result(first + g);
      take(first, count, results);
    });
  }

  template <class Take>
  void rows(const Take& take) const {
    const std::int64_t length = layout_.length, chunks = row_chunks(length);
    if (chunks == 1)
      return each_group(
          length, [&](std::int64_t g) { return part(g * length, length); }, take);
    parallel_for(stream_, layout_.groups * chunks, [&](std::int64_t task) {
      const std::int64_t group = task / chunks, begin = task % chunks * kReduceTask;
      partials_[task] = part(group * length + begin, std::min(kReduceTask, length - begin));
    });
    each_group(
        chunks, [&](std::int64_t g) { return work_.all(partials_ + g * chunks, chunks); }, take);
  }

  // Rows [begin, begin + count) of groups [group, group + n), which lie side by side.
  ColumnRange range(std::int64_t group, int n, std::int64_t begin, std::int64_t count) const {
    std::int64_t start = 0;
    walk_of(layout_.kept, 0).runs(group, 1, [&](std::int64_t offset, std::int64_t, std::int64_t) {
      start = offset;
    });
    const auto bytes = static_cast<std::int64_t>(storage_bytes(input_.x.dtype));
    return {static_cast<const std::byte*>(input_.x.base) + start * bytes,
            input_.x.dtype,
            layout_.reduced,
            begin,
            count,
            n};
  }

  template <class Take>
  void columns(const Take& take) const {
    const std::int64_t inner = layout_.inner(), outer = layout_.groups / inner;
    constexpr std::int64_t kColumns = Work::kColumns;
    const std::int64_t tiles = ceil_div(inner, kColumns);
    const std::int64_t rows = Work::rows(layout_.groups, layout_.length);
    const std::int64_t chunks = ceil_div(layout_.length, rows);
    parallel_for(stream_, outer * chunks * tiles, [&](std::int64_t task) {
      const std::int64_t column = task % tiles * kColumns, chunk = task / tiles % chunks;
      const std::int64_t group = task / tiles / chunks * inner + column;
      const int n = static_cast<int>(std::min<std::int64_t>(kColumns, inner - column));
      A results[kColumns];
      A* to = chunks == 1 ? results : partials_ + chunk * layout_.groups + group;
      const std::int64_t begin = chunk * rows;
      work_.columns(range(group, n, begin, std::min(rows, layout_.length - begin)), to);
      if (chunks == 1) take(group, n, results);
    });
    if (chunks == 1) return;
    parallel_for(stream_, ceil_div(layout_.groups, kColumns), [&](std::int64_t task) {
      const std::int64_t group = task * kColumns;
      const int n = static_cast<int>(std::min<std::int64_t>(kColumns, layout_.groups - group));
      A results[kColumns];
      work_.down(partials_ + group, layout_.groups, chunks, n, results);
      take(group, n, results);
    });
  }

  const Stream& stream_;
  const ReduceLayout& layout_;
  const Work& work_;
  A* partials_;
  ReduceInput<C> input_;
};

}  // namespace planck
