#include "planck/optim/ema.h"

#include "planck/backend/planned.h"
#include "planck/optim/step/step.h"
#include "planck/planck.h"

namespace planck::optim::detail {

Averages::Averages(double decay) : decay_(decay) {
  if (!(decay >= 0 && decay < 1)) refuse("ema: the decay is {}, it must be in [0, 1)", {decay});
}

// a ← keep · a − (−(1 − decay)) · w is a step with the weight as its gradient.
void Averages::update(std::span<const std::pair<std::string, StoredView>> weights) {
  std::vector<StepRow> rows;
  std::vector<StoredView> held;
  KeptMap fresh;
  for (const auto& [path, w] : weights) {
    const auto at = of_.find(path);
    if (at == of_.end()) {
      const Tensor<Cpu> first = nn::widened(Tensor<Cpu>(Primitive<FloatKind>{w}));
      fresh[path].slots.push_back(backend_detail::contiguous(first.primitive()));
      continue;
    }
    StoredView& average = at->second.slots[0];
    if (average.shape() != w.shape())
      refuse("ema: the average of {} has shape {}, the parameter {}",
             {path, average.shape(), w.shape()});
    if (average.dtype() != compute_dtype(w.dtype()))
      refuse("ema: the average of {} is {}, the parameter {}", {path, average.dtype(), w.dtype()});
    check_same_place("ema", "average", path, average.stream(), w.stream());
    make_own(average);
    held.push_back(backend_detail::contiguous(w));
    StepRow row;
    row.w = average.view.data;
    row.w_dtype = average.dtype();
    row.g = held.back().view.data;
    row.g_dtype = w.dtype();
    row.count = numel(w.shape());
    row.rule = {.keeps = true, .rate = -(1 - decay_), .keep = decay_};
    rows.push_back(row);
  }
  for (const StoredView& w : held) backend_detail::check_place("ema", held[0].stream(), w.stream());
  if (!rows.empty()) run_steps(held[0].stream(), std::move(rows));
  of_.merge(fresh);
}

nn::StateDict Averages::state() const {
  nn::StateDict s;
  for (const auto& [path, kept] : of_)
    s[path] = nn::to_entry(Tensor<Cpu>(Primitive<FloatKind>{kept.slots[0]}));
  return s;
}
void Averages::load(const nn::StateDict& state, const Stream& stream) {
  KeptMap fresh;
  for (const auto& [path, e] : state)
    fresh[path].slots.push_back(
        backend_detail::from_host(stream, e.dtype, e.shape, e.bytes.data()));
  of_ = std::move(fresh);
}

}  // namespace planck::optim::detail
