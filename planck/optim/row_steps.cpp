#include "planck/optim/row_steps.h"

#include "planck/optim/step/step.h"
#include "planck/planck.h"

namespace planck::optim::detail {

namespace {

using T = Tensor<Cpu>;  // of either device: ops go where their inputs are

T seen(const StoredView& t) { return T(Primitive<FloatKind>{t}); }

}  // namespace

void step_rows(StepItem& item, Kept& kept, const double* factor) {
  const Tensor<Cpu, IntKind> rows(Primitive<IntKind>{*item.rows});
  const StepRule& r = item.choice.rule;
  // The rows by themselves, with what is kept of them.
  std::vector<StoredView*> all{&item.w};
  for (std::size_t s = 0; s < kept.slots.size(); ++s)
    if (item.choice.slots >> s & 1u) all.push_back(&kept.slots[s]);
  if (kept.master) all.push_back(&*kept.master);
  std::vector<StoredView> before, after;
  for (const StoredView* t : all) {
    before.push_back(backend_detail::contiguous(index_select(seen(*t), 0, rows).primitive()));
    after.push_back(before.back());
    make_own(after.back());
  }
  const auto g = backend_detail::contiguous(item.g);
  StepRow row;
  row.w = after[0].view.data;
  row.g = g.view.data;
  row.count = numel(g.shape());
  row.w_dtype = item.dtype;
  row.g_dtype = g.dtype();
  row.factor = factor;
  row.rule = r;
  row.slot_dtype = kept.slots.empty() ? item.dtype : kept.slots[0].dtype();
  std::size_t next = 1;
  for (std::size_t s = 0; s < kept.slots.size(); ++s)
    if (item.choice.slots >> s & 1u) row.slot[s] = after[next++].view.data;
  if (kept.master) row.master = static_cast<float*>(after[next].view.data);
  run_steps(g.stream(), std::span(&row, 1));
  for (std::size_t i = 0; i < all.size(); ++i) put_rows(*all[i], *item.rows, after[i]);
}

}  // namespace planck::optim::detail
