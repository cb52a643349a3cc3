#include "planck/optim/optimizer.h"

#include "planck/backend/planned.h"
#include "planck/optim/orthogonal.h"
#include "planck/optim/row_steps.h"
#include "planck/optim/step/step.h"
#include "planck/planck.h"

namespace planck::optim {

PathFilter below(std::string path) {
  path += '.';
  return [prefix = std::move(path)](const std::string& p) { return p.starts_with(prefix); };
}
PathFilter ending_with(std::string end) {
  return [end = std::move(end)](const std::string& p) { return p.ends_with(end); };
}

namespace detail {

namespace {

Tensor<Cpu> seen(const StoredView& t) { return Tensor<Cpu>(Primitive<FloatKind>{t}); }

StoredView filled(const Stream& stream, Dtype dtype, const Shape& shape, double value) {
  return full<Cpu>(shape, value, dtype, stream).primitive();
}

StepRow row_of(const StepItem& item, Kept& kept, const StoredView& g) {
  StepRow row;
  row.w = item.w.view.data;
  row.g = g.view.data;
  row.count = numel(item.shape);
  row.w_dtype = item.dtype;
  row.g_dtype = g.dtype();
  row.rule = item.choice.rule;
  row.slot_dtype = kept.slots.empty() ? item.dtype : kept.slots[0].dtype();
  for (std::size_t s = 0; s < kept.slots.size(); ++s)
    if (item.choice.slots >> s & 1u) row.slot[s] = kept.slots[s].view.data;
  if (kept.master) row.master = static_cast<float*>(kept.master->view.data);
  return row;
}

// A step whose direction is known: w ← keep · w − rate · direction.
StepRow apply_row(const StepItem& item, Kept& kept, const StoredView& direction, double rate) {
  StepRow row = row_of(item, kept, direction);
  row.rule = {.keeps = item.choice.rule.keeps, .rate = rate, .keep = item.choice.rule.keep};
  for (void*& slot : row.slot) slot = nullptr;
  return row;
}

// All directions first, then the norms of all weights and directions, then all weights.
void step_lamb(const Stream& stream, std::span<StepItem* const> items, std::span<Kept* const> kepts,
               const double* factor) {
  std::vector<StoredView> directions, weights;
  std::vector<StepRow> rows, then;
  for (std::size_t i = 0; i < items.size(); ++i) {
    StepItem& item = *items[i];
    Kept& kept = *kepts[i];
    directions.push_back(StoredView::empty(stream, kept.slots[0].dtype(), item.shape));
    weights.push_back(kept.master ? *kept.master : item.w);
    rows.push_back(row_of(item, kept, item.g));
    rows[i].slot[2] = directions[i].view.data;
    rows[i].factor = factor;
    then.push_back(apply_row(item, kept, directions[i], item.choice.last_rate));
  }
  run_steps(stream, rows);
  const auto ratios = ratios_of(squares_of(stream, weights), squares_of(stream, directions));
  for (std::size_t i = 0; i < items.size(); ++i)
    then[i].factor = static_cast<const double*>(ratios.view.data) + i;
  run_steps(stream, then);
}

}  // namespace

StepItem begin_step(Slots& slots, const std::string& path, Dtype dtype, const Shape& shape,
                    const Choose& choose) {
  const Kept* kept = slots.find(path);
  StepItem item;
  item.path = path;
  item.dtype = dtype;
  item.shape = shape;
  item.numbers =
      kept != nullptr ? kept->numbers : std::vector(slots.names().count, slots.names().first);
  item.choice =
      choose.of(choose.optimizer, path, kept == nullptr || kept->slots.empty(), item.numbers);
  return item;
}

void check_gradient(std::string_view optimizer, const StepItem& item, const StoredView& g) {
  if (!item.rows && g.shape() != item.shape)
    refuse_shape(optimizer, "gradient", item.path, g.shape(), item.shape);
  if (compute_dtype(g.dtype()) != compute_dtype(item.dtype))
    refuse("{}: the gradient of {} is {}, the parameter {}",
           {optimizer, item.path, g.dtype(), item.dtype});
  if (item.choice.iterations > 0 && item.shape.rank() < 2)
    refuse(
        "{}: {} has shape {}, matrices alone can be made orthogonal; give it to another "
        "optimizer (optim::take)",
        {optimizer, item.path, item.shape});
}

PreparedStep::PreparedStep(Slots& slots, std::vector<StepItem>& items, bool master_weights,
                           const std::optional<StoredView>& factor)
    : slots_(slots), items_(items), factor_(factor) {
  const auto& names = slots.names();
  for (StepItem& item : items) {
    const Stream& stream = item.g.stream();
    Kept* kept = slots.find(item.path);
    const bool master =
        kept != nullptr ? kept->master.has_value() : master_weights && bits(item.dtype) == 16;
    if (kept == nullptr && (item.choice.keeps || master)) kept = &fresh_[item.path];
    if (kept == nullptr) continue;
    // What is new has no weights yet: run() makes the master of them.
    if (kept->slots.empty() && item.choice.keeps)
      for (std::size_t s = 0; s < names.slots.size(); ++s)
        kept->slots.push_back(
            filled(stream, master ? Dtype::f32 : item.dtype, item.shape, item.choice.start));
    if (master && !kept->master) kept->master = StoredView::empty(stream, Dtype::f32, item.shape);
    for (StoredView& slot : kept->slots) make_own(slot);
    if (kept->master && slots.find(item.path) != nullptr) make_own(*kept->master);
    kept->numbers.resize(names.count);
  }
  for (StepItem& item : items)
    if (!item.rows) item.g = backend_detail::contiguous(item.g);
}

void PreparedStep::run() {
  if (items_.empty()) return;
  const Stream stream = items_[0].g.stream();
  const double* factor = factor_ ? static_cast<const double*>(factor_->view.data) : nullptr;
  Kept none;
  std::vector<Kept*> kepts;
  for (StepItem& item : items_) {
    backend_detail::check_place(slots_.names().optimizer, item.w.stream(), item.g.stream());
    make_own(item.w);
    Kept* kept = slots_.find(item.path);
    if (kept == nullptr)
      if (const auto at = fresh_.find(item.path); at != fresh_.end()) {
        kept = &at->second;
        if (kept->master)
          backend_detail::copy(to_float(seen(item.w), Dtype::f32).primitive().view,
                               kept->master->view, stream);
      }
    kepts.push_back(kept != nullptr ? kept : &none);
  }
  const auto run_all = [&] {
    std::vector<StepRow> rows;
    std::vector<StepItem*> lamb;
    std::vector<Kept*> lamb_kept;
    std::vector<StoredView> held;  // directions, until their step has run
    for (std::size_t i = 0; i < items_.size(); ++i) {
      StepItem& item = items_[i];
      if (item.rows) {
        step_rows(item, *kepts[i], factor);
      } else if (item.choice.iterations > 0) {
        held.push_back(orthogonal_direction(item, *kepts[i], factor_));
        rows.push_back(
            apply_row(item, *kepts[i], held.back(), item.choice.last_rate * matrix_rate(item)));
      } else if (item.choice.rule.kind == StepKind::lamb) {
        lamb.push_back(&item);
        lamb_kept.push_back(kepts[i]);
      } else {
        rows.push_back(row_of(item, *kepts[i], item.g));
        rows.back().factor = factor;
      }
    }
    run_steps(stream, rows);
    if (!lamb.empty()) step_lamb(stream, lamb, lamb_kept, factor);
  };
  if (Observer::any())
    backend_detail::observed(slots_.names().optimizer, stream, {}, {}, run_all);
  else
    run_all();
  for (std::size_t i = 0; i < items_.size(); ++i)
    if (kepts[i] != &none) kepts[i]->numbers = std::move(items_[i].numbers);
  slots_.merge(fresh_);
}

}  // namespace detail

}  // namespace planck::optim
