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

StepRow row_of(const StepItem& item, const StoredView& g) {
  const Kept& kept = item.kept;
  StepRow row;
  row.w = item.w.view.data;
  row.g = g.view.data;
  row.count = numel(item.of.shape);
  row.w_dtype = item.of.dtype;
  row.g_dtype = g.dtype();
  row.rule = item.choice.rule;
  row.slot_dtype = kept.slots.empty() ? item.of.dtype : kept.slots[0].dtype();
  for (std::size_t s = 0; s < kept.slots.size(); ++s)
    if (item.choice.slots >> s & 1u) row.slot[s] = kept.slots[s].view.data;
  if (kept.master) row.master = static_cast<float*>(kept.master->view.data);
  return row;
}

// A step whose direction is known: w ← keep · w − rate · direction.
StepRow apply_row(const StepItem& item, const StoredView& direction, double rate) {
  StepRow row = row_of(item, direction);
  row.rule = {.keeps = item.choice.rule.keeps, .rate = rate, .keep = item.choice.rule.keep};
  for (void*& slot : row.slot) slot = nullptr;
  return row;
}

// Lamb of all its items: all directions first, then the norms of all weights and directions, then
// all weights.
class LambSteps {
 public:
  LambSteps(const Stream& stream, std::span<const StepItem* const> items, const double* factor,
            const double* norm)
      : directions_(directions(stream, items)),
        ratios_(StoredView::empty(stream, Dtype::f64, {static_cast<std::int64_t>(items.size())})),
        weight_squares_(stream, weights(items)),
        direction_squares_(stream, directions_),
        find_(stream, finding(items, factor), norm),
        apply_(stream, applying(items), norm) {}
  void run() {
    find_.run();
    ratios_of(weight_squares_.run(), direction_squares_.run(), ratios_);
    apply_.run();
  }

 private:
  using Items = std::span<const StepItem* const>;
  static std::vector<StoredView> directions(const Stream& stream, Items items) {
    std::vector<StoredView> all;
    for (const StepItem* item : items)
      all.push_back(StoredView::empty(stream, item->kept.slots[0].dtype(), item->of.shape));
    return all;
  }
  static std::vector<StoredView> weights(Items items) {
    std::vector<StoredView> all;
    for (const StepItem* item : items)
      all.push_back(item->kept.master ? *item->kept.master : item->w);
    return all;
  }
  std::vector<StepRow> finding(Items items, const double* factor) const {
    std::vector<StepRow> rows;
    for (std::size_t i = 0; i < items.size(); ++i) {
      rows.push_back(row_of(*items[i], items[i]->g));
      rows[i].slot[2] = directions_[i].view.data;
      rows[i].factor = factor;
    }
    return rows;
  }
  std::vector<StepRow> applying(Items items) const {
    std::vector<StepRow> rows;
    for (std::size_t i = 0; i < items.size(); ++i) {
      rows.push_back(apply_row(*items[i], directions_[i], items[i]->choice.last_rate));
      rows[i].factor = static_cast<const double*>(ratios_.view.data) + i;
    }
    return rows;
  }

  std::vector<StoredView> directions_;
  StoredView ratios_;
  Squares weight_squares_, direction_squares_;
  Steps find_, apply_;
};

// What a step reads and writes, for those who watch.
struct Touched {
  std::vector<View> inputs, outputs;

  void read(const StoredView& t) { inputs.push_back(t.view); }
  void change(const StoredView& t) {
    inputs.push_back(t.view);
    outputs.push_back(t.view);
  }
  void change(const StepItem& item, const StoredView& g, bool slots) {
    read(g);
    change(item.w);
    for (std::size_t s = 0; slots && s < item.kept.slots.size(); ++s)
      if (item.choice.slots >> s & 1u) change(item.kept.slots[s]);
    if (item.kept.master) change(*item.kept.master);
  }
  void change(const RowCopies& rows) {
    read(rows.gradient());
    for (const StoredView& t : rows.copies()) change(t);
  }
};

void check_rows(std::string_view optimizer, const StepItem& item) {
  const StoredView& rows = *item.rows;
  Shape wanted = item.of.shape;
  if (rows.dtype() != Dtype::i64 || rows.shape().rank() != 1)
    refuse("{}: the rows of {} are {} {}, they must be i64 in one axis",
           {optimizer, item.path, rows.dtype(), rows.shape()});
  if (wanted.rank() > 0) wanted[0] = rows.shape()[0];
  if (item.g.shape() != wanted)
    refuse("{}: the gradient of {} has shape {}, that of {} rows of the parameter {}",
           {optimizer, item.path, item.g.shape(), rows.shape()[0], wanted});
  check_same_place(optimizer, "rows", item.path, rows.stream(), item.of.place);
}

}  // namespace

StepItem begin_step(Slots& slots, const std::string& path, const ParameterSpec& parameter,
                    const Choose& choose) {
  const Kept* kept = slots.find(path);
  if (kept != nullptr) slots.check_fits(path, *kept, parameter);
  StepItem item{.path = path, .of = parameter};
  item.kept.numbers =
      kept != nullptr ? kept->numbers : std::vector(slots.names().count, slots.names().first);
  item.choice =
      choose.of(choose.optimizer, path, kept == nullptr || kept->slots.empty(), item.kept.numbers);
  return item;
}

void check_gradient(std::string_view optimizer, const StepItem& item) {
  const StoredView& g = item.g;
  const auto& [dtype, shape, place] = item.of;
  if (item.rows)
    check_rows(optimizer, item);
  else if (g.shape() != shape)
    refuse_shape(optimizer, "gradient", item.path, g.shape(), shape);
  if (compute_dtype(g.dtype()) != compute_dtype(dtype))
    refuse("{}: the gradient of {} is {}, the parameter {}",
           {optimizer, item.path, g.dtype(), dtype});
  check_same_place(optimizer, "gradient", item.path, g.stream(), place);
  if (item.choice.iterations > 0 && shape.rank() < 2)
    refuse(
        "{}: {} has shape {}, matrices alone can be made orthogonal; give it to another "
        "optimizer (optim::take)",
        {optimizer, item.path, shape});
}

bool can_be_left_out(const std::vector<StepItem>& items) {
  return std::ranges::none_of(items, [](const StepItem& item) {
    return item.rows.has_value() || item.choice.iterations > 0;
  });
}

PreparedStep::PreparedStep(Slots& slots, std::vector<StepItem>& items, bool master_weights,
                           const std::optional<StoredView>& factor, const double* norm)
    : slots_(slots),
      items_(items),
      factor_(factor),
      norm_(norm),
      keeps_inputs_(Observer::inputs_are_kept()) {
  const auto& names = slots.names();
  for (StepItem& item : items) {
    const auto& [dtype, shape, place] = item.of;
    backend_detail::check_place(names.optimizer, items[0].of.place, place);
    if (factor) check_same_place(names.optimizer, "factor", item.path, factor->stream(), place);
    Kept* old = slots.find(item.path);
    const bool master =
        old != nullptr ? old->master.has_value() : master_weights && bits(dtype) == 16;
    if (old == nullptr && !item.choice.keeps && !master) continue;
    item.to = old != nullptr ? old : &fresh_[item.path];
    item.begins_master = master && old == nullptr;
    if (old != nullptr) {
      const auto own = [&](StoredView& t) {
        if (keeps_inputs_) return copied(t);
        make_own(t);
        return t;
      };
      for (StoredView& slot : old->slots) item.kept.slots.push_back(own(slot));
      if (master) item.kept.master = own(*old->master);
    } else if (master) {
      item.kept.master = StoredView::empty(place, Dtype::f32, shape);
    }
    if (item.kept.slots.empty() && item.choice.keeps)
      for (std::size_t s = 0; s < names.slots.size(); ++s)
        item.kept.slots.push_back(
            filled(place, master ? Dtype::f32 : dtype, shape, item.choice.start));
  }
  for (StepItem& item : items)
    if (!item.rows) item.g = backend_detail::contiguous(item.g);
}

void PreparedStep::run() {
  if (items_.empty()) return;
  const Stream stream = items_[0].of.place;
  const double* factor = factor_ ? static_cast<const double*>(factor_->view.data) : nullptr;
  const bool watched = Observer::any();
  Touched touched;
  std::vector<StoredView> before;  // the weights, where they are kept
  std::vector<StepRow> rows;
  std::vector<RowCopies> tables;
  std::vector<const StepItem*> for_lamb;
  std::vector<StoredView> held;  // directions, until their step has run
  for (StepItem& item : items_) {
    if (keeps_inputs_) before.push_back(item.w);
    make_own(item.w);
    if (item.begins_master)
      backend_detail::copy(to_float(seen(item.w), Dtype::f32).primitive().view,
                           item.kept.master->view, stream);
    if (item.rows) {
      const RowCopies& table = tables.emplace_back(item, factor);
      rows.push_back(table.step());
      if (watched) touched.change(table);
    } else if (item.choice.iterations > 0) {
      auto [mean, direction] = orthogonal_direction(item, factor_);
      item.kept.slots[0] = std::move(mean);
      rows.push_back(apply_row(item, direction, item.choice.last_rate * matrix_rate(item)));
      if (watched) touched.change(item, direction, false);
      held.push_back(std::move(direction));
    } else {
      if (watched) touched.change(item, item.g, true);
      if (item.choice.rule.kind == StepKind::lamb) {
        for_lamb.push_back(&item);
        continue;
      }
      rows.push_back(row_of(item, item.g));
      rows.back().factor = factor;
    }
  }
  const Steps steps(stream, std::move(rows), norm_);
  std::optional<LambSteps> lamb;
  if (!for_lamb.empty()) lamb.emplace(stream, for_lamb, factor, norm_);
  // From here on nothing takes memory.
  const auto step = [&] {
    steps.run();
    if (lamb) lamb->run();
    for (const RowCopies& table : tables) table.put();
  };
  const auto keep = [&] {
    for (StepItem& item : items_)
      if (item.to != nullptr) *item.to = std::move(item.kept);
    slots_.merge(fresh_);
  };
  const auto watch = [&](const auto& run) {
    backend_detail::observed(slots_.names().optimizer, stream, touched.inputs, touched.outputs,
                             run);
  };
  const auto step_and_keep = [&] {
    step();
    keep();
  };
  if (!watched) return step_and_keep();
  if (!keeps_inputs_) return watch(step_and_keep);
  try {
    watch(step);
  } catch (...) {
    for (std::size_t i = 0; i < items_.size(); ++i) items_[i].w = std::move(before[i]);
    throw;
  }
  keep();
}

}  // namespace detail

}  // namespace planck::optim
