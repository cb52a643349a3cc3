#include "planck/optim/row_steps.h"

#include "planck/optim/step/step.h"
#include "planck/planck.h"

namespace planck::optim::detail {

namespace {

using T = Tensor<Cpu>;  // of either device: ops go where their inputs are

T seen(const StoredView& t) { return T(Primitive<FloatKind>{t}); }

}  // namespace

RowCopies::RowCopies(const StepItem& item, const double* factor)
    : rows_(backend_detail::contiguous(*item.rows)), g_(backend_detail::contiguous(item.g)) {
  const Kept& kept = item.kept;
  tables_.push_back(item.w);
  for (std::size_t s = 0; s < kept.slots.size(); ++s)
    if (item.choice.slots >> s & 1u) tables_.push_back(kept.slots[s]);
  if (kept.master) tables_.push_back(*kept.master);
  const Tensor<Cpu, IntKind> rows(Primitive<IntKind>{rows_});
  for (const StoredView& t : tables_) {
    copies_.push_back(index_select(seen(t), 0, rows).primitive());
    make_own(copies_.back());
  }
  step_.w = copies_[0].view.data;
  step_.g = g_.view.data;
  step_.count = numel(g_.shape());
  step_.w_dtype = item.of.dtype;
  step_.g_dtype = g_.dtype();
  step_.factor = factor;
  step_.rule = item.choice.rule;
  step_.slot_dtype = kept.slots.empty() ? item.of.dtype : kept.slots[0].dtype();
  std::size_t next = 1;
  for (std::size_t s = 0; s < kept.slots.size(); ++s)
    if (item.choice.slots >> s & 1u) step_.slot[s] = copies_[next++].view.data;
  if (kept.master) step_.master = static_cast<float*>(copies_[next].view.data);
}

void RowCopies::put() const {
  for (std::size_t i = 0; i < tables_.size(); ++i) put_rows(tables_[i], rows_, copies_[i]);
}

}  // namespace planck::optim::detail
