// cpu:tree. Rows that lie densely, and everything else gathered into blocks; columns where a kept
// axis is the dense one: eight rows at a time are joined, then these as a binary counter.
//
// Work is cut at multiples of a power of two elements, whatever the number of threads: what is cut
// is joined afterwards in the same order. var and logsumexp go over their elements twice, the
// second time from the cache where a group fits.
#include <algorithm>
#include <tuple>

#include "planck/loops/parallel.h"
#include "planck/ops/reduce/finish.h"
#include "planck/ops/reduce/input.h"
#include "planck/ops/reduce/kernels.h"
#include "planck/ops/reduce/layout.h"
#include "planck/ops/reduce/store.h"

namespace planck {

namespace {

namespace rm = reduce_math;

constexpr std::int64_t kTask = 1 << 16;  // elements worth a task
constexpr int kDigits = 24;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t row_chunks(std::int64_t length) {
  return std::max<std::int64_t>(1, ceil_div(length, kTask));
}

// Rows of a chunk of columns.
std::int64_t column_rows(std::int64_t groups, std::int64_t length) {
  std::int64_t rows = kReduceRows;
  const std::int64_t across = std::min<std::int64_t>(groups, kReduceColumns);
  while (rows * across < 4 * kTask && rows < length && rows < (1 << 20)) rows *= 2;
  return rows;
}

std::int64_t partials(const ReduceProblem& p) {
  const std::int64_t groups = p.outputs(), length = p.reduced();
  if (groups == 0 || length == 0) return 0;
  const std::int64_t rows = row_chunks(length);
  const std::int64_t columns = ceil_div(length, column_rows(groups, length));
  const std::int64_t most = std::max(rows, columns);
  return most > 1 ? groups * most : 0;
}

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
std::size_t value_bytes(const ReduceProblem& p) {
  return p.element_dtype == Dtype::f64 || p.element_dtype == Dtype::i64 ? 8 : 4;
}
bool two_passes(const ReduceProblem& p) {
  return p.kind == ReduceKind::var || p.kind == ReduceKind::logsumexp;
}

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
  const ReduceLayout& layout() const { return layout_; }

  // Calls take(group, count, results) for consecutive groups, from any thread. `parameters`: one a
  // group, or null.
  template <class Take>
  void run(const ReduceStep<C>& step, const C* parameters, const Take& take) const {
    if (layout_.columns)
      columns(step, parameters, take);
    else
      rows(step, parameters, take);
  }

  // Two steps, the second with what the first gave as its parameter, group by group: for rows that
  // are one task each.
  template <class Take>
  void run_both(const ReduceStep<C>& first, const ReduceStep<C>& second, const Take& take) const {
    each_short_row(
        [&](std::int64_t group) {
          const C parameter = take.parameter(one_row(first, group, C(0)));
          return std::pair(one_row(second, group, parameter), parameter);
        },
        take);
  }
  bool short_rows() const { return !layout_.columns && layout_.length <= kTask; }

 private:
  A part(const ReduceStep<C>& step, std::int64_t begin, std::int64_t n, C parameter) const {
    if (const void* at = input_.in_place(begin, n))
      return loops_.row(step, {at, input_.x.dtype}, n, parameter);
    alignas(64) C buffer[kBlock];
    alignas(64) A sums[kTask / kBlock];
    int count = 0;
    for (std::int64_t i = 0; i < n; i += kBlock) {
      const int m = static_cast<int>(std::min<std::int64_t>(kBlock, n - i));
      sums[count++] = loops_.row(step, input_.gathered(begin + i, m, buffer), m, parameter);
    }
    return loops_.tree(step.join, sums, count);
  }
  A one_row(const ReduceStep<C>& step, std::int64_t group, C parameter) const {
    return part(step, group * layout_.length, layout_.length, parameter);
  }

  template <class Row, class Take>
  void each_short_row(const Row& row, const Take& take) const {
    const std::int64_t together = std::clamp<std::int64_t>(kTask / layout_.length, 1, kBlock);
    parallel_for(stream_, ceil_div(layout_.groups, together), [&](std::int64_t task) {
      A results[kBlock];
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
      return each_short_row(
          [&](std::int64_t g) { return std::pair(one_row(step, g, given(g)), given(g)); }, take);
    const std::int64_t chunks = row_chunks(layout_.length);
    parallel_for(stream_, layout_.groups * chunks, [&](std::int64_t task) {
      const std::int64_t group = task / chunks, begin = task % chunks * kTask;
      partials_[task] = part(step, group * layout_.length + begin,
                             std::min(kTask, layout_.length - begin), given(group));
    });
    const std::int64_t together = std::clamp<std::int64_t>(kTask / chunks, 1, kBlock);
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

  // Rows [begin, begin + count) of columns [column, column + n) of an outer position, into `out`.
  template <class T>
  static void tile(const ReduceLoops<T, A>& loops, const ReduceStep<T>& step, const Walk& down,
                   const std::byte* base, Dtype dtype, std::int64_t begin, std::int64_t count,
                   int n, const T* parameters, A* out) {
    alignas(64) A digits[kDigits][kReduceColumns];
    const auto size = static_cast<std::int64_t>(storage_bytes(dtype));
    Source rows[kReduceRows];
    int held = 0;
    std::uint64_t blocks = 0;
    const auto flush = [&] {
      alignas(64) A sum[kReduceColumns];
      loops.columns(step, rows, held, n, parameters, sum);
      int k = 0;
      for (; (blocks >> k) & 1; ++k) loops.join(step.join, n, digits[k], sum);
      std::copy_n(sum, n, digits[k]);
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
        loops.join(step.join, n, digits[k], out);
      any = true;
    }
  }

  template <class Take>
  void columns(const ReduceStep<C>& step, const C* parameters, const Take& take) const {
    const std::int64_t inner = layout_.inner(), outer = layout_.groups / inner;
    const std::int64_t tiles = ceil_div(inner, kReduceColumns);
    const std::int64_t rows = column_rows(layout_.groups, layout_.length);
    const std::int64_t chunks = ceil_div(layout_.length, rows);
    const Walk kept = walk_of(layout_.kept, 0);
    const auto* base = static_cast<const std::byte*>(input_.x.base);
    const auto size = static_cast<std::int64_t>(storage_bytes(input_.x.dtype));
    parallel_for(stream_, outer * chunks * tiles, [&](std::int64_t task) {
      const std::int64_t column = task % tiles * kReduceColumns, chunk = task / tiles % chunks;
      const std::int64_t group = task / tiles / chunks * inner + column;
      const int n = static_cast<int>(std::min<std::int64_t>(kReduceColumns, inner - column));
      std::int64_t start = 0;
      kept.runs(group, 1, [&](std::int64_t offset, std::int64_t, std::int64_t) { start = offset; });
      const C* own = parameters != nullptr ? parameters + group : nullptr;
      A results[kReduceColumns];
      A* to = chunks == 1 ? results : partials_ + chunk * layout_.groups + group;
      tile(loops_, step, layout_.reduced, base + start * size, input_.x.dtype, chunk * rows,
           std::min(rows, layout_.length - chunk * rows), n, own, to);
      if (chunks == 1) take_columns(take, group, n, results, own);
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
      tile<A>(reduce_sums<A>(), {step.join, Lift::plain}, down,
              reinterpret_cast<const std::byte*>(partials_ + group), dtype_of<A>, 0, chunks, n,
              nullptr, results);
      take_columns(take, group, n, results, parameters != nullptr ? parameters + group : nullptr);
    });
  }
  template <class Take>
  static void take_columns(const Take& take, std::int64_t group, int n, const A* results,
                           const C* parameters) {
    const C none[kReduceColumns] = {};
    take(group, n, results, parameters != nullptr ? parameters : none);
  }

  const Stream& stream_;
  ReduceLayout layout_;
  const ReduceLoops<C, A>& loops_;
  A* partials_;
  ReduceInput<C> input_;
};

template <class C>
struct Outputs {
  ResultStore<C> store;
  rm::Finish<C> finish;

  void operator()(std::int64_t group, int n, const C* sums, const C* parameters) const {
    C values[kBlock];
    for (int i = 0; i < n; ++i) values[i] = finish.of_sum(sums[i], parameters[i]);
    store(group, n, values);
  }
  C parameter(C sum) const { return sum / static_cast<C>(finish.n); }  // var's mean
};
template <class C>
struct Extremes {
  ResultStore<C> store;
  rm::Finish<C> finish;

  void operator()(std::int64_t group, int n, const rm::KeyOf<C>* keys, const C*) const {
    C values[kBlock];
    for (int i = 0; i < n; ++i) values[i] = finish.of_key(keys[i]);
    store(group, n, values);
  }
};

// Means or maxima, for a second pass.
template <class C>
struct Parameters {
  C* to;
  rm::Finish<C> finish;
  void operator()(std::int64_t group, int n, const C* sums, const C*) const {
    for (int i = 0; i < n; ++i) to[group + i] = sums[i] / static_cast<C>(finish.n);
  }
};
template <class C>
struct KeyParameters {
  C* to;
  rm::Finish<C> finish;
  void operator()(std::int64_t group, int n, const rm::KeyOf<C>* keys, const C*) const {
    for (int i = 0; i < n; ++i) to[group + i] = finish.of_key(keys[i]);
  }
};

template <class C>
void reduce(const Stream& stream, const ReduceProblem& p, const Operands& operands,
            void* workspace) {
  using K = rm::KeyOf<C>;
  const rm::Finish<C> finish = rm::make_finish<C>(p);
  const ReduceLayout layout = ReduceLayout::make(p, operands[0], operands[1]);
  const ResultStore<C> store{operands[1].data, operands[1].dtype, walk_of(layout.kept, 1)};
  if (layout.groups == 0) return;
  if (layout.length == 0) {
    C values[kBlock];
    std::fill_n(values, kBlock, finish.of_nothing());
    for (std::int64_t g = 0; g < layout.groups; g += kBlock)
      store(g, static_cast<int>(std::min<std::int64_t>(kBlock, layout.groups - g)), values);
    return;
  }
  const ReduceStep<C> keys{Join::largest, Lift::key, finish.flip}, add{Join::add, Lift::plain};
  if constexpr (std::is_floating_point_v<C>) {
    if (two_passes(p)) {
      const bool var = p.kind == ReduceKind::var;
      const ReduceStep<C> second{Join::add, var ? Lift::square : Lift::exponential};
      auto* partials = static_cast<C*>(workspace);
      auto* parameters =
          reinterpret_cast<C*>(static_cast<std::byte*>(workspace) +
                               aligned(static_cast<std::size_t>(planck::partials(p)) * sizeof(C)));
      const Reduction<C, C> sums(stream, p, operands, reduce_sums<C>(), partials);
      const Outputs<C> outputs{store, finish};
      if (var && sums.short_rows()) return sums.run_both(add, second, outputs);
      if (var)
        sums.run(add, nullptr, Parameters<C>{parameters, finish});
      else
        Reduction<C, K>(stream, p, operands, reduce_extremes<C>(), static_cast<K*>(workspace))
            .run(keys, nullptr, KeyParameters<C>{parameters, finish});
      return sums.run(second, parameters, outputs);
    }
  }
  switch (p.kind) {
    case ReduceKind::max:
    case ReduceKind::min:
    case ReduceKind::any:
    case ReduceKind::all:
      return Reduction<C, K>(stream, p, operands, reduce_extremes<C>(), static_cast<K*>(workspace))
          .run(keys, nullptr, Extremes<C>{store, finish});
    default:
      if constexpr (!std::is_same_v<C, std::uint8_t>)
        Reduction<C, C>(stream, p, operands, reduce_sums<C>(), static_cast<C*>(workspace))
            .run(p.kind == ReduceKind::prod ? ReduceStep<C>{Join::multiply, Lift::plain} : add,
                 nullptr, Outputs<C>{store, finish});
  }
}

}  // namespace

std::size_t reduce_cpu_workspace(const ReduceProblem& p) {
  if (p.finds()) return find_cpu_workspace(p);
  const auto partial_bytes = static_cast<std::size_t>(partials(p)) * value_bytes(p);
  const std::size_t parameters =
      two_passes(p) ? static_cast<std::size_t>(p.outputs()) * value_bytes(p) : 0;
  return aligned(partial_bytes) + aligned(parameters);
}

Result<void> reduce_cpu(const Stream& stream, Workspace workspace, const ReduceProblem& p,
                        const Operands& operands) {
  if (p.finds()) return find_cpu(stream, workspace, p, operands);
  switch (p.element_dtype) {
    case Dtype::f64:
      reduce<double>(stream, p, operands, workspace.data);
      break;
    case Dtype::i64:
      reduce<std::int64_t>(stream, p, operands, workspace.data);
      break;
    case Dtype::i32:
      reduce<std::int32_t>(stream, p, operands, workspace.data);
      break;
    case Dtype::boolean:
      reduce<std::uint8_t>(stream, p, operands, workspace.data);
      break;
    default:
      reduce<float>(stream, p, operands, workspace.data);
  }
  return {};
}

}  // namespace planck
