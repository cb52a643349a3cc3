// One pass of a CPU reduction, or two over the same elements, the second from the cache.
//
// Work is cut at multiples of a power of two elements, whatever the number of threads: what is cut
// is joined afterwards in the same order.
#pragma once

#include <algorithm>
#include <tuple>

#include "planck/loops/parallel.h"
#include "planck/ops/reduce/input.h"
#include "planck/ops/reduce/layout.h"
#include "planck/ops/reduce/task.cpu.h"

namespace planck {

template <class C, class A>
class Reduction {
 public:
  Reduction(const Stream& stream, const ReduceProblem& p, const Operands& operands,
            const ReduceLoops<C, A>& loops, A* partials)
      : stream_(stream),
        layout_(ReduceLayout::make(p, operands[0], operands[1])),
        loops_(loops),
        partials_(partials),
        input_(operands[0], layout_.positions()) {}

  // Calls take(group, count, results, parameters) for consecutive groups, from any thread.
  // `parameters`: one a group, or null.
  template <class Take>
  void run(const ReduceStep<C>& step, const C* parameters, const Take& take) const {
    if (layout_.columns)
      columns(step, parameters, take);
    else
      rows(step, parameters, take);
  }

  // Whether a task may hold whole groups in a cache: a row, or a panel of columns that the third
  // level holds for every core, where panels are many.
  bool holds() const {
    if (!layout_.columns) return short_rows();
    const std::int64_t width = panel();
    return width > 0 && layout_.groups >= kLeastPanels * width;
  }

  // Two steps over held groups: parameter_of(joined) of the first is the second's parameter.
  template <class A2, class ParameterOf, class Take>
  void run_both(const ReduceStep<C>& first, const ReduceStep<C>& second,
                const Reduction<C, A2>& then, const ParameterOf& parameter_of,
                const Take& take) const {
    const std::int64_t ahead = layout_.length * element_bytes();  // the next row, meanwhile
    if (!layout_.columns)
      return each_short_row<A2>(
          [&](std::int64_t group) {
            const C parameter = parameter_of(one_row(first, group, C(0)));
            return std::pair(then.one_row(second, group, parameter, ahead), parameter);
          },
          take);
    const std::int64_t inner = layout_.inner(), width = panel(), panels = ceil_div(inner, width);
    parallel_for(stream_, layout_.groups / inner * panels, [&](std::int64_t task) {
      const std::int64_t column = task % panels * width;
      const std::int64_t group = task / panels * inner + column;
      const int n = static_cast<int>(std::min(width, inner - column));
      alignas(64) A joined[kReduceColumns];
      alignas(64) A2 results[kReduceColumns];
      alignas(64) C parameters[kReduceColumns];
      tile(first, group, n, 0, layout_.length, nullptr, joined);
      for (int j = 0; j < n; ++j) parameters[j] = parameter_of(joined[j]);
      then.tile(second, group, n, 0, layout_.length, parameters, results);
      take(group, n, results, parameters);
    });
  }

 private:
  template <class, class>
  friend class Reduction;

  static constexpr int kDigits = 24;
  // f32, two threads, columns of 8,192: 64 to 96 columns 11 ms, 128 10.7, 192 12 (one pass 8.3).
  static constexpr std::int64_t kPanelBytes = 4 << 20, kPanelStep = 64, kLeastPanels = 16;

  bool short_rows() const { return layout_.length <= kReduceTask; }
  std::int64_t element_bytes() const {
    return static_cast<std::int64_t>(storage_bytes(input_.x.dtype));
  }
  std::int64_t panel() const {  // columns
    const std::int64_t fit = kPanelBytes / (layout_.length * element_bytes());
    return std::min<std::int64_t>(fit / kPanelStep * kPanelStep, kReduceColumns);
  }

  A part(const ReduceStep<C>& step, std::int64_t begin, std::int64_t n, C parameter,
         std::int64_t ahead = 4096) const {
    if (const void* at = input_.in_place(begin, n))
      return loops_.row(step, {at, input_.x.dtype, ahead}, n, parameter);
    alignas(64) C buffer[kBlock];
    alignas(64) A sums[kReduceTask / kBlock];
    int count = 0;
    for (std::int64_t i = 0; i < n; i += kBlock) {
      const int m = static_cast<int>(std::min<std::int64_t>(kBlock, n - i));
      sums[count++] = loops_.row(step, input_.gathered(begin + i, m, buffer), m, parameter);
    }
    return loops_.tree(step.join, sums, count);
  }
  template <class... Ahead>
  A one_row(const ReduceStep<C>& step, std::int64_t group, C parameter, Ahead... ahead) const {
    return part(step, group * layout_.length, layout_.length, parameter, ahead...);
  }

  template <class Result, class Row, class Take>
  void each_short_row(const Row& row, const Take& take) const {
    const std::int64_t together = std::clamp<std::int64_t>(kReduceTask / layout_.length, 1, kBlock);
    parallel_for(stream_, ceil_div(layout_.groups, together), [&](std::int64_t task) {
      Result results[kBlock];
      C given[kBlock];
      const std::int64_t first = task * together;
      const int count = static_cast<int>(std::min(together, layout_.groups - first));
      for (int g = 0; g < count; ++g) std::tie(results[g], given[g]) = row(first + g);
      take(first, count, results, given);
    });
  }

  template <class Take>
  void rows(const ReduceStep<C>& step, const C* parameters, const Take& take) const {
    const auto given = [&](std::int64_t g) { return parameters != nullptr ? parameters[g] : C(0); };
    if (short_rows())
      return each_short_row<A>(
          [&](std::int64_t g) { return std::pair(one_row(step, g, given(g)), given(g)); }, take);
    const std::int64_t chunks = row_chunks(layout_.length);
    parallel_for(stream_, layout_.groups * chunks, [&](std::int64_t task) {
      const std::int64_t group = task / chunks, begin = task % chunks * kReduceTask;
      partials_[task] = part(step, group * layout_.length + begin,
                             std::min(kReduceTask, layout_.length - begin), given(group));
    });
    const std::int64_t together = std::clamp<std::int64_t>(kReduceTask / chunks, 1, kBlock);
    parallel_for(stream_, ceil_div(layout_.groups, together), [&](std::int64_t task) {
      A results[kBlock];
      C parameter[kBlock];
      const std::int64_t first = task * together;
      const int count = static_cast<int>(std::min(together, layout_.groups - first));
      const ReduceStep<A> joined{step.join, Lift::plain};
      for (int g = 0; g < count; ++g) {
        results[g] = reduce_sums<A>().row(joined, {partials_ + (first + g) * chunks, dtype_of<A>},
                                          chunks, A(0));
        parameter[g] = given(first + g);
      }
      take(first, count, results, parameter);
    });
  }

  // Rows [begin, begin + count) of n columns from `base` on, into `out`.
  template <class T>
  static void join_rows(const ReduceLoops<T, A>& loops, const ReduceStep<T>& step, const Walk& down,
                        const std::byte* base, Dtype dtype, std::int64_t begin, std::int64_t count,
                        int n, const T* parameters, A* out) {
    alignas(64) A digits[kDigits][kReduceColumns], sum[kReduceColumns];
    const auto size = static_cast<std::int64_t>(storage_bytes(dtype));
    Source rows[kReduceRows];
    int held = 0;
    std::uint64_t blocks = 0;
    const auto flush = [&] {
      const auto to = [&](int k) { return (blocks >> k) & 1 ? sum : digits[k]; };
      loops.columns(step, rows, held, n, parameters, to(0));
      for (int k = 0; (blocks >> k) & 1; ++k) loops.join(step.join, n, digits[k], sum, to(k + 1));
      ++blocks;
      held = 0;
    };
    const std::int64_t ahead =
        kReduceRows * size * down.stride[static_cast<std::size_t>(down.rank - 1)];
    down.runs(begin, count, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) {
        rows[held++] = {base + (offset + i * stride) * size, dtype, ahead};
        if (held == kReduceRows) flush();
      }
    });
    if (held > 0) flush();
    bool any = false;
    for (int k = 0; (blocks >> k) != 0; ++k) {
      if (!((blocks >> k) & 1)) continue;
      if (!any)
        std::copy_n(digits[k], n, out);
      else
        loops.join(step.join, n, digits[k], out, out);
      any = true;
    }
  }

  // Rows [begin, begin + count) of groups [group, group + n), which lie side by side.
  void tile(const ReduceStep<C>& step, std::int64_t group, int n, std::int64_t begin,
            std::int64_t count, const C* parameters, A* out) const {
    std::int64_t start = 0;
    walk_of(layout_.kept, 0).runs(group, 1, [&](std::int64_t offset, std::int64_t, std::int64_t) {
      start = offset;
    });
    const auto* base = static_cast<const std::byte*>(input_.x.base) + start * element_bytes();
    join_rows(loops_, step, layout_.reduced, base, input_.x.dtype, begin, count, n, parameters,
              out);
  }

  template <class Take>
  void columns(const ReduceStep<C>& step, const C* parameters, const Take& take) const {
    const std::int64_t inner = layout_.inner(), outer = layout_.groups / inner;
    const std::int64_t tiles = ceil_div(inner, kReduceColumns);
    const std::int64_t rows = column_rows(layout_.groups, layout_.length);
    const std::int64_t chunks = ceil_div(layout_.length, rows);
    const C none[kReduceColumns] = {};
    const auto given = [&](std::int64_t group) {
      return parameters != nullptr ? parameters + group : none;
    };
    parallel_for(stream_, outer * chunks * tiles, [&](std::int64_t task) {
      const std::int64_t column = task % tiles * kReduceColumns, chunk = task / tiles % chunks;
      const std::int64_t group = task / tiles / chunks * inner + column;
      const int n = static_cast<int>(std::min<std::int64_t>(kReduceColumns, inner - column));
      A results[kReduceColumns];
      A* to = chunks == 1 ? results : partials_ + chunk * layout_.groups + group;
      tile(step, group, n, chunk * rows, std::min(rows, layout_.length - chunk * rows),
           given(group), to);
      if (chunks == 1) take(group, n, results, given(group));
    });
    if (chunks == 1) return;
    Walk down;
    down.extent[0] = chunks;
    down.stride[0] = layout_.groups;
    parallel_for(stream_, ceil_div(layout_.groups, kReduceColumns), [&](std::int64_t task) {
      const std::int64_t group = task * kReduceColumns;
      const int n =
          static_cast<int>(std::min<std::int64_t>(kReduceColumns, layout_.groups - group));
      A results[kReduceColumns];
      join_rows<A>(reduce_sums<A>(), {step.join, Lift::plain}, down,
                   reinterpret_cast<const std::byte*>(partials_ + group), dtype_of<A>, 0, chunks, n,
                   nullptr, results);
      take(group, n, results, given(group));
    });
  }

  const Stream& stream_;
  ReduceLayout layout_;
  const ReduceLoops<C, A>& loops_;
  A* partials_;
  ReduceInput<C> input_;
};

}  // namespace planck
