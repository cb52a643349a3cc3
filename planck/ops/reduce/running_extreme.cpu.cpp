// cpu:running of cummax and cummin. Along a dense axis, one row after the other; along any other, a
// panel of columns goes down the axis side by side. Rows and panels are spread over threads; where
// they are cut changes no bit (takes_over in reduce.math.h).
#include <algorithm>

#include "planck/loops/parallel.h"
#include "planck/ops/reduce/input.h"
#include "planck/ops/reduce/kernels.h"
#include "planck/ops/reduce/layout.h"
#include "planck/ops/reduce/store.h"

namespace planck {

namespace {

namespace rm = reduce_math;

constexpr std::int64_t kTask = 1 << 15;  // elements
constexpr std::int64_t kLeastPanel = 8;  // columns; fewer go one by one

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class C>
C stored(C v) {
  if constexpr (std::is_floating_point_v<C>)
    return rm::canonical(v);
  else
    return v;
}

// x, values and indices: how groups lie, and the step from one element of a group to the next.
struct Lines {
  const Operands& operands;
  ReduceLayout layout;
  Walk groups[3];
  std::int64_t step[3];

  Lines(const ReduceProblem& p, const Operands& o)
      : operands(o), layout(ReduceLayout::make(p, o[0], o[1], &o[2])) {
    int axis = 0;
    while (!p.reduces(axis)) ++axis;
    for (int k = 0; k < 3; ++k) {
      groups[k] = walk_of(layout.kept, k);
      step[k] = o[static_cast<std::size_t>(k)].strides[axis];
    }
  }
  // The elements of one group.
  Walk line(int k, std::int64_t group) const {
    Walk walk;
    walk.extent[0] = layout.length;
    walk.stride[0] = step[k];
    groups[k].runs(group, 1,
                   [&](std::int64_t offset, std::int64_t, std::int64_t) { walk.offset = offset; });
    return walk;
  }
  // Element i of every group.
  Walk row(int k, std::int64_t i) const {
    Walk walk = groups[k];
    walk.offset += i * step[k];
    return walk;
  }
  template <class C>
  ResultStore<C> store(int k, const Walk& walk) const {
    const View& to = operands[static_cast<std::size_t>(k)];
    return {to.data, to.dtype, walk};
  }
};

template <class C, bool kLargest>
void along_row(const Lines& t, std::int64_t group) {
  const ReduceInput<C> input(t.operands[0], t.line(0, group));
  const auto values_to = t.store<C>(1, t.line(1, group));
  const auto indices_to = t.store<std::int64_t>(2, t.line(2, group));
  alignas(64) C values[kBlock];
  alignas(64) std::int64_t indices[kBlock];
  C best{};
  std::int64_t index = -1;
  for (std::int64_t i = 0; i < t.layout.length; i += kBlock) {
    const int m = static_cast<int>(std::min<std::int64_t>(kBlock, t.layout.length - i));
    input.gathered(i, m, values);
    if (i == 0) {
      best = values[0];
      index = 0;
    }
    for (int k = 0; k < m; ++k) {
      if (rm::takes_over<kLargest>(values[k], best)) {
        best = values[k];
        index = i + k;
      }
      values[k] = stored(best);
      indices[k] = index;
    }
    values_to(i, m, values);
    indices_to(i, m, indices);
  }
}

// Groups [first, first + n), n <= kReduceColumns.
template <class C, bool kLargest>
void down_columns(const Lines& t, std::int64_t first, int n) {
  alignas(64) C values[kReduceColumns], best[kReduceColumns];
  alignas(64) std::int64_t indices[kReduceColumns];
  for (std::int64_t i = 0; i < t.layout.length; ++i) {
    ReduceInput<C>(t.operands[0], t.row(0, i)).gathered(first, n, values);
    if (i == 0) {
      std::copy_n(values, n, best);
      std::fill_n(indices, n, 0);
    }
    for (int k = 0; k < n; ++k) {
      const bool takes = rm::takes_over<kLargest>(values[k], best[k]);
      best[k] = takes ? values[k] : best[k];
      indices[k] = takes ? i : indices[k];
      values[k] = stored(best[k]);
    }
    t.store<C>(1, t.row(1, i))(first, n, values);
    t.store<std::int64_t>(2, t.row(2, i))(first, n, indices);
  }
}

template <class C, bool kLargest>
void running_extreme(const Stream& stream, const ReduceProblem& p, const Operands& operands) {
  const Lines t(p, operands);
  const std::int64_t all = t.layout.groups, n = t.layout.length;
  if (all == 0 || n == 0) return;
  if (t.layout.columns && t.layout.inner() >= kLeastPanel) {
    const std::int64_t panels = ceil_div(all, kReduceColumns);
    parallel_for(stream, panels, [&](std::int64_t panel) {
      const std::int64_t first = panel * kReduceColumns;
      down_columns<C, kLargest>(
          t, first, static_cast<int>(std::min<std::int64_t>(kReduceColumns, all - first)));
    });
    return;
  }
  const std::int64_t together = std::max<std::int64_t>(1, kTask / n);
  parallel_for(stream, ceil_div(all, together), [&](std::int64_t task) {
    const std::int64_t end = std::min(all, (task + 1) * together);
    for (std::int64_t g = task * together; g < end; ++g) along_row<C, kLargest>(t, g);
  });
}

template <class C>
void running_extreme(const Stream& stream, const ReduceProblem& p, const Operands& operands) {
  if (p.kind == ReduceKind::cummax)
    running_extreme<C, true>(stream, p, operands);
  else
    running_extreme<C, false>(stream, p, operands);
}

}  // namespace

Result<void> running_extreme_cpu(const Stream& stream, Workspace, const ReduceProblem& p,
                                 const Operands& operands) {
  switch (p.element_dtype) {
    case Dtype::f64:
      running_extreme<double>(stream, p, operands);
      break;
    case Dtype::i64:
      running_extreme<std::int64_t>(stream, p, operands);
      break;
    case Dtype::i32:
      running_extreme<std::int32_t>(stream, p, operands);
      break;
    default:
      running_extreme<float>(stream, p, operands);
  }
  return {};
}

}  // namespace planck
