// cpu:tree. Rows that lie densely, and everything else gathered into blocks; columns where a kept
// axis is the dense one: eight rows at a time are joined, then these as a binary counter.
//
// var and logsumexp go over their elements twice, the second time from a cache where a row or a
// panel of columns fits. f32 [8192, 8192], two threads, share of the ceiling: logsumexp along the
// rows 0.47 to 0.82, var down the columns 0.45 to 0.54, where the third-level cache decides.
#include <algorithm>

#include "planck/ops/reduce/finish.h"
#include "planck/ops/reduce/kernels.h"
#include "planck/ops/reduce/reduction.cpu.h"
#include "planck/ops/reduce/store.h"

namespace planck {

namespace {

namespace rm = reduce_math;

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

template <class C>
struct Outputs {
  ResultStore<C> store;
  rm::Finish<C> finish;

  void operator()(std::int64_t group, int n, const C* sums, const C* parameters) const {
    C values[kBlock];
    for (int i = 0; i < n; ++i) values[i] = finish.of_sum(sums[i], parameters[i]);
    store(group, n, values);
  }
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

// Both passes, the first of which gives a parameter a group.
template <class C, class A, class ParameterOf>
void in_two_passes(const Reduction<C, A>& first, const ReduceStep<C>& first_step,
                   const Reduction<C, C>& second, const ReduceStep<C>& second_step, C* parameters,
                   const ParameterOf& parameter_of, const Outputs<C>& outputs) {
  if (first.holds()) return first.run_both(first_step, second_step, second, parameter_of, outputs);
  first.run(first_step, nullptr, [&](std::int64_t group, int n, const A* joined, const C*) {
    for (int i = 0; i < n; ++i) parameters[group + i] = parameter_of(joined[i]);
  });
  second.run(second_step, parameters, outputs);
}

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
      auto* parameters =
          reinterpret_cast<C*>(static_cast<std::byte*>(workspace) +
                               aligned(static_cast<std::size_t>(planck::partials(p)) * sizeof(C)));
      const Reduction<C, C> sums(stream, p, operands, reduce_sums<C>(), static_cast<C*>(workspace));
      const Outputs<C> outputs{store, finish};
      if (p.kind == ReduceKind::var)
        return in_two_passes(
            sums, add, sums, {Join::add, Lift::square}, parameters,
            [&](C sum) { return sum / static_cast<C>(finish.n); }, outputs);
      const Reduction<C, K> largest(stream, p, operands, reduce_extremes<C>(),
                                    static_cast<K*>(workspace));
      return in_two_passes(
          largest, keys, sums, {Join::add, Lift::exponential}, parameters,
          [&](K key) { return finish.of_key(key); }, outputs);
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
