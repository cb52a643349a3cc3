// cpu:running of cummax and cummin. Along a dense axis, one row after the other; along any other, a
// panel of columns goes down the axis side by side. Rows and panels are spread over threads; where
// they are cut changes no bit (runs_on in planck/math/reduction.h).
//
// f32 [8192, 8192], two threads, share of the ceiling:              axis 1  axis 0
//   through arrays                                                    0.59    0.29
//   dense f32 in vectors and past the caches (running_loops.cpp)      1.0     0.92
#include <algorithm>

#include "planck/loops/parallel.h"
#include "planck/ops/reduce/cpu/input.h"
#include "planck/ops/reduce/cpu/kernels.h"
#include "planck/ops/reduce/cpu/running_loops.h"
#include "planck/ops/reduce/cpu/store.h"
#include "planck/ops/reduce/host/layout.h"

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
  // Whether groups [first, first + n) lie densely side by side in all three.
  bool side_by_side(std::int64_t first, int n) const {
    bool all = true;
    for (const Walk& walk : groups)
      walk.runs(first, n, [&](std::int64_t, std::int64_t stride, std::int64_t length) {
        all = all && length == n && (stride == 1 || n == 1);
      });
    return all;
  }
  // Whether vectors have loops for C and memory holds it.
  template <class C>
  bool vectors() const {
    return std::is_same_v<C, float> && operands[0].dtype == Dtype::f32 &&
           operands[1].dtype == Dtype::f32 && running_loops() != nullptr;
  }
  bool stream() const {
    return bytes_for(operands[2].dtype, layout.groups * layout.length) >= kStreamBytes;
  }
  template <class T>
  T* at(int k, std::int64_t offset) const {
    return static_cast<T*>(operands[static_cast<std::size_t>(k)].data) + offset;
  }
  template <class C>
  ResultStore<C> store(int k, const Walk& walk) const {
    const View& to = operands[static_cast<std::size_t>(k)];
    return {to.data, to.dtype, walk};
  }
};

template <bool kLargest, class C>
void extreme_row(const C* in, int n, std::int64_t first, RunningBest<C>& best, C* values,
                 std::int64_t* indices) {
  if constexpr (std::is_same_v<C, float>)
    if (const RunningLoops* loops = running_loops())
      return loops->extreme_row(kLargest, in, n, first, best, values, indices, false);
  for (int k = 0; k < n; ++k) {
    if (rm::runs_on<kLargest>(in[k], best.value)) best = {in[k], first + k};
    values[k] = stored(best.value);
    indices[k] = best.index;
  }
}

template <class C, bool kLargest>
void along_row(const Lines& t, std::int64_t group) {
  const Walk from = t.line(0, group), to[2] = {t.line(1, group), t.line(2, group)};
  if (t.vectors<C>() && t.step[0] == 1 && t.step[1] == 1 && t.step[2] == 1) {
    const auto* in = t.at<float>(0, from.offset);
    RunningBest<float> best{in[0], 0};
    return running_loops()->extreme_row(kLargest, in, t.layout.length, 0, best,
                                        t.at<float>(1, to[0].offset),
                                        t.at<std::int64_t>(2, to[1].offset), t.stream());
  }
  const ReduceInput<C> input(t.operands[0], from);
  const auto values_to = t.store<C>(1, to[0]);
  const auto indices_to = t.store<std::int64_t>(2, to[1]);
  alignas(64) C values[kPortion];
  alignas(64) std::int64_t indices[kPortion];
  RunningBest<C> best;
  for (std::int64_t i = 0; i < t.layout.length; i += kPortion) {
    const int m = static_cast<int>(std::min<std::int64_t>(kPortion, t.layout.length - i));
    input.gathered(i, m, values);
    if (i == 0) best = {values[0], 0};
    extreme_row<kLargest>(values, m, i, best, values, indices);
    values_to(i, m, values);
    indices_to(i, m, indices);
  }
}

// Groups [first, first + n), which lie side by side in all three, n <= kReduceColumns.
template <bool kLargest>
void down_dense_columns(const Lines& t, std::int64_t first, int n) {
  constexpr int kRows = 8;
  alignas(64) float best[kReduceColumns];
  alignas(64) std::int32_t rows[kReduceColumns] = {};
  const DenseRows<const float> in{t.at<float>(0, t.line(0, first).offset), t.step[0]};
  const DenseRows<float> values{t.at<float>(1, t.line(1, first).offset), t.step[1]};
  const DenseRows<std::int64_t> indices{t.at<std::int64_t>(2, t.line(2, first).offset), t.step[2]};
  std::copy_n(in.data, n, best);
  for (std::int64_t i = 0; i < t.layout.length; i += kRows)
    running_loops()->extreme_down(
        kLargest, {in.row(i), in.stride},
        static_cast<int>(std::min<std::int64_t>(kRows, t.layout.length - i)), n,
        static_cast<std::int32_t>(i), best, rows, {values.row(i), values.stride},
        {indices.row(i), indices.stride}, t.stream());
}

// Groups [first, first + n), n <= kReduceColumns.
template <class C, bool kLargest>
void down_columns(const Lines& t, std::int64_t first, int n) {
  if (t.vectors<C>() && t.layout.length <= INT32_MAX && t.side_by_side(first, n))
    return down_dense_columns<kLargest>(t, first, n);
  alignas(64) C values[kReduceColumns], best[kReduceColumns];
  alignas(64) std::int64_t indices[kReduceColumns];
  for (std::int64_t i = 0; i < t.layout.length; ++i) {
    ReduceInput<C>(t.operands[0], t.row(0, i)).gathered(first, n, values);
    if (i == 0) {
      std::copy_n(values, n, best);
      std::fill_n(indices, n, 0);
    }
    for (int k = 0; k < n; ++k) {
      const bool takes = rm::runs_on<kLargest>(values[k], best[k]);
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
