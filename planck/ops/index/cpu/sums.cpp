// cpu:sorted_rows: scatter_add and index_add of floats, items sorted by what they are added to.
#include "planck/ops/index/host/sums.h"

#include <algorithm>

#include "planck/loops/parallel.h"
#include "planck/loops/table/kernels.h"
#include "planck/ops/index/cpu/elements.h"
#include "planck/ops/index/cpu/kernels.h"

namespace planck {

using namespace index_detail;

namespace {

// The keys of the items in the order of the source; −1 where the index is bad.
void make_keys(const Stream& stream, const SumPlan& plan, const IndexProblem& p, const View& index,
               const View& keys) {
  const SumPlan::Keys k = plan.key_nest(p, index);
  Nest nest = nest_over(k.shape, {k.index, k.base});
  const std::int64_t total = nest.total();
  if (total == 0) return;
  collapse(nest);
  const auto last = static_cast<std::size_t>(nest.rank - 1);
  with_index(index.dtype, [&](auto in) {
    with_index(keys.dtype, [&](auto made) {
      using I = decltype(in);
      using K = decltype(made);
      parallel_for(stream, task_count(total), [&](std::int64_t task) {
        const std::int64_t begin = task * kTaskItems;
        K* to = static_cast<K*>(keys.data) + begin;
        nest_runs(nest, begin, std::min(kTaskItems, total - begin), [&](const auto& at, auto n) {
          const I* from = static_cast<const I*>(index.data) + at[0];
          for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t a = from[i * nest.stride[0][last]];
            const std::int64_t before = at[1] + i * nest.stride[1][last];
            to[i] = outside(a, p.extent()) ? K(-1) : static_cast<K>(before + a * k.axis_stride);
          }
          to += n;
        });
      });
    });
  });
}

}  // namespace

Result<void> index_sums_cpu(const Stream& stream, Workspace workspace, const IndexProblem& p,
                            const Operands& o) {
  using O = index_operand::Write;
  const SumPlan plan(p, add_rows_cpu_workspace);
  SumPlan::Copies copied;
  const Operands e = plan.operands(p, o, workspace, copied);
  using B = table_operand::Backward;
  if (plan.makes_keys) make_keys(stream, plan, p, o[O::index], e[B::indices]);
  if (plan.makes_keys && p.by_slice() && o[O::bad_indices].present)
    count_bad(o[O::index], p.extent(), BadIndices(o[O::bad_indices]));
  View target = o[O::out], source = o[O::source];
  if (copied.source) {
    source.data = e[B::dout].data;
    source.strides = row_major(source.shape);
    copy_elements(stream, o[O::source], source);
  }
  if (copied.out) {
    target.data = e[B::dweight].data;
    target.strides = row_major(target.shape);
  }
  if (p.with_x) copy_elements(stream, o[O::x], target);
  if (auto ok = add_rows_cpu(stream, workspace, plan.embedding, e); !ok) return ok;
  if (copied.out) copy_elements(stream, target, o[O::out]);
  return {};
}

}  // namespace planck
