// cpu:ranks: elements chosen by a mask, in row-major order.
//
// Tasks count their parts of the mask side by side; then each knows where its first chosen element
// goes.
#include <algorithm>

#include "planck/loops/parallel.h"
#include "planck/ops/index/cpu/elements.h"
#include "planck/ops/index/cpu/kernels.h"

namespace planck {

using namespace index_detail;

namespace {

struct MaskTasks {
  const View& mask;
  const View& other;  // what is walked beside it
  Nest nest;
  std::int64_t total;
  std::int64_t* firsts;  // [tasks] how many are chosen before each

  MaskTasks(const View& m, const View& o, Workspace workspace)
      : mask(m),
        other(o),
        nest(nest_over(m.shape, {m.strides, o.strides})),
        total(nest.total()),
        firsts(static_cast<std::int64_t*>(workspace.data)) {
    if (total > 0) collapse(nest);
  }
  std::int64_t tasks() const { return task_count(total); }

  // Calls f(position, chosen, offset of the other operand) in order.
  template <class F>
  void each(std::int64_t task, F&& f) const {
    const auto last = static_cast<std::size_t>(nest.rank - 1);
    const std::int64_t begin = task * kTaskItems;
    std::int64_t position = begin;
    nest_runs(nest, begin, std::min(kTaskItems, total - begin), [&](const auto& at, auto n) {
      const auto* chosen = static_cast<const std::uint8_t*>(mask.data) + at[0];
      for (std::int64_t i = 0; i < n; ++i)
        f(position + i, chosen[i * nest.stride[0][last]] != 0, at[1] + i * nest.stride[1][last]);
      position += n;
    });
  }

  // Fills firsts; returns how many are chosen.
  std::int64_t rank(const Stream& stream) const {
    parallel_for(stream, tasks(), [&](std::int64_t task) {
      std::int64_t count = 0;
      each(task, [&](auto, bool chosen, auto) { count += chosen; });
      firsts[task] = count;
    });
    std::int64_t sum = 0;
    for (std::int64_t t = 0; t < tasks(); ++t) {
      const std::int64_t count = firsts[t];
      firsts[t] = sum;
      sum += count;
    }
    return sum;
  }
};

// Writes value(offset, position) of chosen elements one behind the other, then `rest`.
template <class T, class Value>
void compact(const Stream& stream, const MaskTasks& tasks, const View& to, const View& count,
             T rest, Value&& value) {
  const std::int64_t chosen = tasks.rank(stream);
  *static_cast<std::int64_t*>(count.data) = chosen;
  T* out = static_cast<T*>(to.data);
  const std::int64_t step = to.strides[0];
  parallel_for(stream, tasks.tasks(), [&](std::int64_t task) {
    std::int64_t next = tasks.firsts[task];
    tasks.each(task, [&](std::int64_t position, bool taken, std::int64_t at) {
      if (taken) out[next++ * step] = value(at, position);
    });
    const std::int64_t begin = task * kTaskItems;
    const std::int64_t end = std::min(tasks.total, begin + kTaskItems);
    for (std::int64_t i = std::max(begin, chosen); i < end; ++i) out[i * step] = rest;
  });
}

}  // namespace

std::size_t index_masks_cpu_workspace(const IndexProblem& p) {
  return static_cast<std::size_t>(task_count(numel(p.x))) * sizeof(std::int64_t);
}

Result<void> index_masks_cpu(const Stream& stream, Workspace workspace, const IndexProblem& p,
                             const Operands& o) {
  if (p.kind == IndexKind::nonzero) {
    using N = index_operand::Nonzero;
    const MaskTasks tasks(o[N::mask], o[N::mask], workspace);
    compact<std::int64_t>(stream, tasks, o[N::positions], o[N::count], -1,
                          [](std::int64_t, std::int64_t position) { return position; });
    return {};
  }
  with_bytes(p.element_dtype, [&](auto word) {
    using T = decltype(word);
    if (p.kind == IndexKind::mask_select) {
      using S = index_operand::MaskSelect;
      const MaskTasks tasks(o[S::mask], o[S::x], workspace);
      const T* x = static_cast<const T*>(o[S::x].data);
      compact<T>(stream, tasks, o[S::values], o[S::count], T(0),
                 [x](std::int64_t at, std::int64_t) { return x[at]; });
      return;
    }
    using S = index_operand::MaskScatter;
    copy_elements(stream, p.with_x ? o[S::x] : View{}, o[S::out]);
    const MaskTasks tasks(o[S::mask], o[S::out], workspace);
    (void)tasks.rank(stream);
    const T* values = static_cast<const T*>(o[S::values].data);
    T* out = static_cast<T*>(o[S::out].data);
    parallel_for(stream, tasks.tasks(), [&](std::int64_t task) {
      std::int64_t next = tasks.firsts[task];
      tasks.each(task, [&](std::int64_t, bool taken, std::int64_t at) {
        if (taken) out[at] = values[next++ * o[S::values].strides[0]];
      });
    });
  });
  return {};
}

}  // namespace planck
