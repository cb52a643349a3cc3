#include <algorithm>

#include "planck/backend/planned.h"
#include "planck/core/exception.h"
#include "planck/core/refuse.h"
#include "planck/loops/parallel.h"
#include "planck/optim/step/cpu/kernels.h"
#include "planck/optim/step/cuda/kernels.h"
#include "planck/optim/step/step.h"

namespace planck::optim {

namespace {

constexpr std::int64_t kTask = 1 << 14;  // elements of a task on the CPU

// Tensors with dense parts, and a row of pointers for each of them.
struct Listed {
  std::vector<StoredView> outs, dense;
  std::vector<const void*> pointers;
  std::vector<SumRow> rows;
};

Listed listed(const Stream& stream, std::span<const Summands> all, std::size_t parts) {
  Listed l;
  l.dense.reserve(all.size() * parts);
  l.pointers.reserve(all.size() * parts);
  for (const Summands& s : all) {
    const void* const* first = l.pointers.data() + l.pointers.size();
    for (const auto& part : s.parts) {
      if (part) l.dense.push_back(backend_detail::contiguous(*part));
      l.pointers.push_back(part ? l.dense.back().view.data : nullptr);
    }
    const StoredView& like = l.dense.back();
    l.outs.push_back(StoredView::empty(stream, s.to, like.shape()));
    l.rows.push_back({l.outs.back().view.data, first, numel(like.shape()), like.dtype(), s.to});
  }
  return l;
}

void sums_cpu(const Stream& stream, std::span<const SumRow> rows, int parts) {
  std::vector<std::pair<std::size_t, std::int64_t>> tasks;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::int64_t begin = 0; begin < rows[i].count; begin += kTask)
      tasks.emplace_back(i, begin);
  parallel_for(stream, static_cast<std::int64_t>(tasks.size()), [&](std::int64_t t) {
    const auto& [i, begin] = tasks[static_cast<std::size_t>(t)];
    sum_range(rows[i], parts, begin, std::min(kTask, rows[i].count - begin));
  });
}

}  // namespace

std::vector<StoredView> sums_of(const Stream& stream, std::span<const Summands> all) {
  if (all.empty()) return {};
  const std::size_t parts = all[0].parts.size();
  if (parts > kMostSummands)
    refuse("sums: {} parts, there may be {}", {static_cast<std::int64_t>(parts), kMostSummands});
  Listed l = listed(stream, all, parts);
  if (stream.device().kind == DeviceKind::cpu)
    sums_cpu(stream, l.rows, static_cast<int>(parts));
  else
    value_or_throw(sums_cuda(stream, l.rows, static_cast<int>(parts)));
  return std::move(l.outs);
}

}  // namespace planck::optim
