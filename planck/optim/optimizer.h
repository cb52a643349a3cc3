// What optimizers share: options by groups of parameters, and one step over all parameters at once.
//
//   optim::Adam<A> adam({.rate = 1e-3, .weight_decay = 0.01});
//   adam.groups.push_back({optim::ending_with("bias"), {.rate = 1e-3}});   // no decay
//   adam.rate_factor = optim::cosine(step, steps);                         // of every group
//   adam.step(model, gradients, optim::clip(gradients, 1.0));
//
// A step changes weights and slots where they lie, in one pass over memory (step/step.h); what
// others hold is copied first. It reads nothing back from the device. Where it is refused, or where
// memory runs out, neither weights nor slots have changed; nor where Anomaly finds a NaN in them.
// On CUDA no weight changes once data were found to be wrong (backend/faults.h), until that has
// been thrown.
//
// 16-bit parameters have master weights: the optimizer keeps and steps a copy in f32, its slots are
// f32 too, and the parameter is the copy, rounded. Without them, in a step that is less than half a
// unit of a bf16 weight, 1/256 of it, nothing moves.
#pragma once

#include <memory>

#include "planck/nn/state.h"
#include "planck/optim/choice.h"
#include "planck/optim/gradients.h"

namespace planck::optim {

// Of a path: whether a group takes the parameter.
using PathFilter = std::function<bool(const std::string&)>;
// The parameters of the part at a path.
PathFilter below(std::string path);
// Parameters whose path ends so.
PathFilter ending_with(std::string end);

// Options of parameters: those of the first group that takes the path, or the optimizer's own.
template <class Options>
class Grouped {
 public:
  struct Group {
    PathFilter takes;
    Options options;
  };
  explicit Grouped(const Options& o) : options(o) {}

  Options options;
  std::vector<Group> groups;
  double rate_factor = 1;      // of every rate: what a schedule sets
  bool master_weights = true;  // of 16-bit parameters, from their first step on

  Options options_of(const std::string& path) const {
    Options o = options;
    for (const Group& g : groups)
      if (g.takes(path)) {
        o = g.options;
        break;
      }
    o.rate *= rate_factor;
    return o;
  }
};

// What the options of a path come to: of(optimizer, …).
struct Choose {
  const void* optimizer;
  StepChoice (*of)(const void* optimizer, const std::string& path, bool first,
                   std::span<double> numbers);
};

namespace detail {

// One parameter of a step.
struct StepItem {
  std::string path;
  ParameterSpec of;
  StepChoice choice = {};
  StoredView g = {};
  // Rows of the parameter, where g is theirs.
  std::optional<StoredView> rows = {};
  StoredView w = {};  // the parameter's own tensor, while the step runs
  // What is kept after the step, and what takes its place when all is done; null: nothing is kept.
  Kept kept = {};
  Kept* to = nullptr;
  bool begins_master = false;
};

// All that may fail comes before anything changes: own tensors for every slot, a master for 16-bit
// parameters, room for what lies between.
class PreparedStep {
 public:
  PreparedStep(Slots& slots, std::vector<StepItem>& items, bool master_weights,
               const std::optional<StoredView>& factor, const double* norm = nullptr);
  // Steps every item's w, which lies there by now.
  void run();

 private:
  Slots& slots_;
  std::vector<StepItem>& items_;
  const std::optional<StoredView>& factor_;
  const double* const norm_;  // where it is not finite, nothing is stepped; null: nobody asks
  const bool keeps_inputs_;   // for one who watches: what is stepped are copies
  KeptMap fresh_;
};

// The item of a parameter, with what its options come to; refused where its slots do not fit it.
StepItem begin_step(Slots& slots, const std::string& path, const ParameterSpec& parameter,
                    const Choose& choose);
// Refuses a gradient that is not the parameter's.
void check_gradient(std::string_view optimizer, const StepItem& item);
// Whether a device can leave all of the step out by itself.
bool can_be_left_out(const std::vector<StepItem>& items);

}  // namespace detail

// One step of every parameter that is trained and has a gradient. With an outcome, of clip.norm:
// one that does not count leaves everything as it was; the host need not know yet.
template <class A>
void step_parameters(Slots& slots, const nn::PartList& parts,
                     const ModelGradients<nn::Inner<A>>& gradients, const Clip<nn::Inner<A>>& clip,
                     bool master_weights, const Choose& choose,
                     const std::shared_ptr<const Outcome>& outcome = nullptr) {
  const auto spec = [](const nn::Parameter<A>& p) {
    return ParameterSpec{p->dtype(), p->shape(),
                         detail::stream_of<nn::Inner<A>>(p.value().device())};
  };
  if (slots.unchecked()) {
    std::map<std::string, ParameterSpec, std::less<>> model;
    parts.for_each<nn::Parameter<A>>(
        [&](const std::string& path, nn::Parameter<A>& p) { model.emplace(path, spec(p)); });
    slots.check(model);
  }
  std::vector<detail::StepItem> items;
  std::vector<nn::Parameter<A>*> parameters;
  parts.for_each<nn::Parameter<A>>([&](const std::string& path, nn::Parameter<A>& p) {
    if (!p.requires_grad()) return;
    const auto dense = gradients.find(path);
    const auto rows = gradients.rows.find(path);
    if (dense == gradients.end() && rows == gradients.rows.end()) return;
    auto item = detail::begin_step(slots, path, spec(p), choose);
    if (dense == gradients.end() && item.choice.rows) {
      item.rows = detail::stored(rows->second.rows);
      item.g = detail::stored(rows->second.values);
    } else {
      item.g = detail::stored(dense != gradients.end() ? dense->second : rows->second.dense());
    }
    detail::check_gradient(slots.names().optimizer, item);
    items.push_back(std::move(item));
    parameters.push_back(&p);
  });
  std::optional<StoredView> factor;
  if (clip.factor) factor = detail::stored(*clip.factor);
  std::optional<StoredView> norm;
  if (outcome) {
    if (detail::can_be_left_out(items))
      norm = detail::stored(*clip.norm);
    else if (!outcome->counts())
      return;
  }
  detail::PreparedStep prepared(slots, items, master_weights, factor,
                                norm ? static_cast<const double*>(norm->view.data) : nullptr);
  if (norm) slots.depend_on(outcome);
  std::vector<std::unique_ptr<detail::WeightLoan<A>>> loans;
  for (std::size_t i = 0; i < items.size(); ++i)
    loans.push_back(std::make_unique<detail::WeightLoan<A>>(*parameters[i], items[i].w));
  prepared.run();
  for (auto& loan : loans) loan->prepare_return();
  for (auto& loan : loans) loan->give_back();
}

template <class A, class O>
class Optimizer : public Grouped<O> {
 public:
  using Model = A;  // the backend of models that it steps
  using B = nn::Inner<A>;
  explicit Optimizer(const O& o) : Grouped<O>(o), slots_(kept_names(o)) {}

  template <class Module>
  void step(Module& module, const ModelGradients<B>& gradients, const Clip<B>& clip = {}) {
    step(nn::parts_of(module), gradients, clip);
  }
  void step(const nn::PartList& parts, const ModelGradients<B>& gradients, const Clip<B>& clip = {},
            const std::shared_ptr<const Outcome>& outcome = nullptr) {
    const Choose choose{
        this, [](const void* self, const std::string& path, bool first, std::span<double> numbers) {
          const auto& own = *static_cast<const Optimizer*>(self);
          return chosen(own.options_of(path), first, numbers);
        }};
    step_parameters<A>(slots_, parts, gradients, clip, this->master_weights, choose, outcome);
  }
  nn::StateDict state() const { return slots_.state(); }
  void load_state(const nn::StateDict& s, const typename B::Device& device = B::default_device()) {
    slots_.load(s, detail::stream_of<B>(device));
  }

 private:
  Slots slots_;
};

}  // namespace planck::optim
