// cpu:tree. Rows that lie densely, and everything else gathered into portions; columns where a kept
// axis is the dense one.
#include <algorithm>

#include "planck/ops/reduce/cpu/kernels.h"
#include "planck/ops/reduce/cpu/reduction.h"
#include "planck/ops/reduce/cpu/stats.h"
#include "planck/ops/reduce/cpu/store.h"
#include "planck/ops/reduce/cpu/trees.h"
#include "planck/ops/reduce/host/finish.h"

namespace planck {

namespace {

namespace rm = reduce_math;

std::int64_t partials(const ReduceProblem& p) {
  const std::int64_t groups = p.outputs(), length = p.reduced();
  if (groups == 0 || length == 0) return 0;
  const std::int64_t rows = row_chunks(length);
  const bool stats = p.kind == ReduceKind::var || p.kind == ReduceKind::logsumexp;
  const std::int64_t columns =
      ceil_div(length, stats ? stat_rows(groups, length) : column_rows(groups, length));
  const std::int64_t most = std::max(rows, columns);
  return most > 1 ? groups * most : 0;
}

std::size_t value_bytes(const ReduceProblem& p) {
  const std::size_t wide = p.element_dtype == Dtype::f64 || p.element_dtype == Dtype::i64 ? 8 : 4;
  return p.kind == ReduceKind::var         ? wide / 4 * sizeof(rm::Spread<float>)
         : p.kind == ReduceKind::logsumexp ? wide / 4 * sizeof(rm::ExpSum<float>)
                                           : wide;
}

template <class C>
C finished(const rm::Finish<C>& finish, C sum) {
  return finish.of_sum(sum, C(0));
}
template <class C>
C finished(const rm::Finish<C>& finish, const rm::Spread<C>& all) {
  return finish.of_sum(all.squares, C(0));
}
template <class C>
C finished(const rm::Finish<C>& finish, const rm::ExpSum<C>& all) {
  return finish.of_sum(all.sum, all.largest);
}

template <class C>
class Reduce {
 public:
  Reduce(const Stream& stream, const ReduceProblem& p, const Operands& operands, void* workspace)
      : stream_(stream),
        problem_(p),
        operands_(operands),
        workspace_(workspace),
        finish_(rm::make_finish<C>(p)),
        layout_(ReduceLayout::make(p, operands[0], operands[1])),
        store_{operands[1].data, operands[1].dtype, walk_of(layout_.kept, 1)} {}

  void run() const {
    if (layout_.groups == 0) return;
    if (layout_.length == 0) return nothing();
    switch (problem_.kind) {
      case ReduceKind::max:
      case ReduceKind::min:
      case ReduceKind::any:
      case ReduceKind::all:
        return with<K>(Trees<C, K>(reduce_extremes<C>(), {Join::largest, Lift::key, finish_.flip}),
                       [&](K key) { return finish_.of_key(key); });
      case ReduceKind::var:
        if constexpr (std::is_floating_point_v<C>) stats<rm::Spread>();
        return;
      case ReduceKind::logsumexp:
        if constexpr (std::is_floating_point_v<C>) stats<rm::ExpSum>();
        return;
      default:
        if constexpr (!std::is_same_v<C, std::uint8_t>)
          with<C>(Trees<C, C>(reduce_sums<C>(),
                              {problem_.kind == ReduceKind::prod ? Join::multiply : Join::add,
                               Lift::plain}),
                  [&](C sum) { return finished(finish_, sum); });
    }
  }

 private:
  using K = rm::KeyOf<C>;

  template <class A, class Work, class Value>
  void with(const Work& work, const Value& value) const {
    Reduction<C, A, Work>(stream_, layout_, operands_[0], work, workspace_)
        .run([&](std::int64_t group, int n, const A* results) {
          C values[kPortion];
          for (int i = 0; i < n; ++i) values[i] = value(results[i]);
          store_(group, n, values);
        });
  }
  template <template <class> class S>
  void stats() const {
    with<S<C>>(Stats<S, C>(), [&](const S<C>& all) { return finished(finish_, all); });
  }
  void nothing() const {
    C values[kPortion];
    std::fill_n(values, kPortion, finish_.of_nothing());
    for (std::int64_t g = 0; g < layout_.groups; g += kPortion)
      store_(g, static_cast<int>(std::min<std::int64_t>(kPortion, layout_.groups - g)), values);
  }

  const Stream& stream_;
  const ReduceProblem& problem_;
  const Operands& operands_;
  void* workspace_;
  rm::Finish<C> finish_;
  ReduceLayout layout_;
  ResultStore<C> store_;
};

template <class C>
void reduce(const Stream& stream, const ReduceProblem& p, const Operands& operands,
            void* workspace) {
  Reduce<C>(stream, p, operands, workspace).run();
}

}  // namespace

std::size_t reduce_cpu_workspace(const ReduceProblem& p) {
  if (p.finds()) return find_cpu_workspace(p);
  return static_cast<std::size_t>(partials(p)) * value_bytes(p);
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
