// A training step as one object: forward, backward, clipping, update.
//
//   train::Step step(model, adam, [&](const auto& x, const auto& labels) {
//     return nn::cross_entropy_loss(model(x), labels);
//   }, {.highest_norm = 1.0});
//   for (…) {
//     adam.rate_factor = optim::cosine(i, steps);
//     const auto loss = step(x, labels);   // on the device
//   }
//
// It has the bits of the same four lines written by hand (optim/optimizer.h). The function gives
// the loss, or a tuple of the loss and other tensors; the step gives the same without history.
//
// On CUDA the first step with inputs of some shapes and dtypes runs as it is written. The second
// records forward, backward and clipping, and this one and all others run what was recorded: a CUDA
// graph, one launch instead of hundreds. Inputs are copied to where they were, results from there.
// The update is no part of it: that is one launch per few hundred tensors, and so rates, groups and
// what optimizers count stay numbers of the host. The host never waits; but with a LossScale it is
// no more than a step ahead: the device decides which steps count and moves the scale, and the host
// follows when the next forward pass is queued. Indices out of range are thrown where the host
// waits next, by check() at the latest, and until then no weight changes (backend/faults.h).
//
// What was recorded does what the host decided then: the function is called while it is recorded,
// and not again. Other tensors that it refers to, beside inputs and model, must stay as they are.
// It is recorded anew where the model was moved, loaded, frozen, or changed between training and
// evaluation; where anything else of the function changes, forget() says so. A step that cannot be
// recorded runs as it is written, and why_not() says why: the CPU; random draws from generators
// that are no part of the model; a tensor that the host reads or makes; a parameter that the
// function sets; gradients of rows; hooks of leaves.
//
// With a function that takes a Grain first (grains.h), a batch may be cut into `grain` samples
// each. With `side_by_side`, a recorded step runs at once what does not wait for one another:
// grains, and gradients of weights beside those of inputs.
//
//   train::Step step(model, adam, [&](const train::Grain& g, const auto& x, const auto& labels) {
//     return sum(cross_entropy(model(x), labels)) * (1.0 / g.batch);   // its part of the loss
//   }, {.grain = 16});
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planck/core/stream/recording.h"
#include "planck/optim/optimizer.h"
#include "planck/optim/scale/loss_scale.h"
#include "planck/train/generators.h"
#include "planck/train/grains.h"
#include "planck/train/recorded_model.h"
#include "planck/train/results.h"

namespace planck::train {

struct StepOptions {
  double highest_norm = std::numeric_limits<double>::infinity();  // of all gradients together
  optim::LossScale* loss_scale = nullptr;                         // of f16
  // A loss that is not finite is an error, "the loss of step 7 is nan", and nothing is changed. On
  // CUDA it is thrown where the host waits next, and nothing is changed until then.
  bool check_loss = false;
  bool record = true;      // where that can be done
  std::int64_t grain = 0;  // samples that run forward and backward at a time; 0: all of them
  // Work of a recorded step that does not wait for one another, as grains and gradients of weights,
  // runs at once: faster where much of it is small, in the memory of all of it.
  bool side_by_side = false;
};

namespace detail {

void check_loss(const StoredView& loss, std::int64_t step);
bool watched();  // by a Profile or an Anomaly

}  // namespace detail

template <class Module, class Optimizer, class Loss>
class Step {
 public:
  using A = typename Optimizer::Model;
  using B = nn::Inner<A>;

  // Model, optimizer and loss scale are referred to.
  Step(Module& model, Optimizer& optimizer, Loss loss, const StepOptions& options = {})
      : model_(model), optimizer_(optimizer), loss_(std::move(loss)), options_(options) {
    if (!(options.highest_norm > 0))
      refuse("step: the highest norm is {}, it must be positive", {options.highest_norm});
    if (options.grain < 0) refuse("step: grains of {} samples", {options.grain});
  }

  // One step. What the function gave: the loss, or a tuple that begins with it; of one that takes
  // grains the loss alone, in f64.
  template <class... K>
  auto operator()(const Tensor<A, K>&... inputs) {
    auto results = done(inputs...);
    if constexpr (std::tuple_size_v<decltype(results)> == 1)
      return std::get<0>(std::move(results));
    else
      return results;
  }

  // Why steps run as they are written, kernel by kernel; "" where they are recorded, or will be.
  const std::string& why_not() const { return why_not_; }
  std::int64_t steps() const { return steps_; }        // so far
  std::int64_t recorded() const { return recorded_; }  // how often a step was recorded
  std::int64_t replayed() const { return replayed_; }  // steps that ran what was recorded
  // Device memory that only what was recorded uses.
  std::size_t bytes() const {
    std::size_t all = 0;
    for (const auto& r : runs_) all += r->work->bytes();
    return all;
  }
  // The function decides something else from now on: steps are recorded anew, and tried again.
  void forget() {
    runs_.clear();
    known_.clear();
    why_not_.clear();
  }
  // Waits for the device, and throws what was wrong with data of the steps so far.
  void check() {
    if constexpr (optim::detail::kIsStored<B>)
      if (place_) B::synchronize(*place_);
  }

 private:
  using Specs = std::vector<std::pair<Dtype, Shape>>;  // of the inputs
  // One recorded step. What it gives lies in memory of `work`, which goes last.
  struct Run {
    Specs specs;
    const void* scale = nullptr;  // where the loss scale lies
    detail::Seen seen;
    detail::Generators generators;
    std::vector<StoredView> inputs;
    std::optional<Recorded> work;
    optim::ModelGradients<B> gradients;
    optim::Clip<B> clip;
    std::vector<StoredView> results;
    std::vector<const void*> written;  // buffers of the model
  };
  static constexpr std::size_t kMost = 8;  // recorded at a time

  // Forward, backward and clipping.
  struct Found {
    optim::ModelGradients<B> gradients;
    optim::Clip<B> clip;
  };
  template <class... K>
  auto find(const nn::PartList& parts, const Tensor<A, K>&... inputs) {
    if constexpr (std::is_invocable_v<Loss&, const Grain&, const Tensor<A, K>&...>) {
      auto [gradients, loss] = of_grains(parts, inputs...);
      return std::pair(clipped(std::move(gradients)), std::tuple(std::move(loss)));
    } else {
      if (options_.grain > 0)
        refuse("step: grains of {} samples, but the function takes no Grain", {options_.grain});
      const auto beside = side_by_side();
      const auto given = loss_(inputs...);
      auto gradients = gradients_of(parts, detail::loss_of(given));
      if (beside) beside->join();
      return std::pair(clipped(std::move(gradients)), detail::results_of(given));
    }
  }
  optim::ModelGradients<B> gradients_of(const nn::PartList& parts, const Tensor<A>& loss) {
    const auto scaled = [&] {
      if (!options_.loss_scale) return loss;
      if constexpr (optim::detail::kIsStored<B>)
        if (recording()) return options_.loss_scale->scaled_there(loss);
      return (*options_.loss_scale)(loss);
    };
    return optim::collect_parts<A>(parts, scaled().backward());
  }
  Found clipped(optim::ModelGradients<B>&& gradients) {
    Found found{std::move(gradients), {}};
    const bool scaled = options_.loss_scale != nullptr;
    if constexpr (optim::detail::kIsStored<B>)
      if (scaled && recording()) {
        if (found.gradients.empty())
          raise(ErrorCode::unsupported, "a loss scale has no gradients to look at");
        found.clip = options_.loss_scale->clip_there(found.gradients, options_.highest_norm);
        return found;
      }
    if (scaled || options_.highest_norm < std::numeric_limits<double>::infinity())
      found.clip = optim::clip(found.gradients, options_.highest_norm,
                               scaled ? options_.loss_scale->value() : 1);
    return found;
  }
  bool recording() const { return place_ && Recording::of(*place_) != nullptr; }
  template <class... K>
  auto of_grains(const nn::PartList& parts, const Tensor<A, K>&... inputs) {
    const std::int64_t batch = detail::samples_of({inputs.extent(0)...});
    const std::int64_t each = options_.grain > 0 ? std::min(options_.grain, batch) : batch;
    detail::GrainSums<A> sums(parts);
    const auto beside = side_by_side();
    for (std::int64_t first = 0; first < batch; first += each) {
      const Grain grain{first, std::min(batch, first + each), batch};
      sums.begin();
      const Tensor<A> loss = loss_(grain, slice(inputs, 0, grain.first, grain.end)...);
      sums.add(loss, gradients_of(parts, loss));
    }
    if (beside) beside->join();
    return sums.finish();
  }
  std::unique_ptr<Recording::SideBySide> side_by_side() const {
    if constexpr (optim::detail::kIsStored<B>)
      if (options_.side_by_side && recording())
        return std::make_unique<Recording::SideBySide>(*place_);
    return nullptr;
  }
  void update(const nn::PartList& parts, const Tensor<B>& loss,
              const optim::ModelGradients<B>& gradients, const optim::Clip<B>& clip,
              bool replayed = false) {
    if (options_.check_loss)
      detail::check_loss(optim::detail::stored(nn::widened(loss)), steps_ + 1);
    if (options_.loss_scale && replayed)
      options_.loss_scale->step_there(optimizer_, parts, gradients, clip);
    else if (options_.loss_scale)
      options_.loss_scale->step(optimizer_, parts, gradients, clip);
    else
      optimizer_.step(parts, gradients, clip);
    ++steps_;
  }
  template <class... K>
  auto as_written(const nn::PartList& parts, const Tensor<A, K>&... inputs) {
    auto [found, results] = find(parts, inputs...);
    update(parts, std::get<0>(results), found.gradients, found.clip);
    if (!found.gradients.rows.empty() && why_not_.empty())
      why_not_ = "gradients of rows: the host reads how many there are";
    return std::move(results);
  }

  template <class... K>
  auto done(const Tensor<A, K>&... inputs) {
    const nn::PartList parts = nn::parts_of(model_);
    if constexpr (optim::detail::kIsStored<B>) {
      if (may_record(parts)) {
        const Specs specs{{inputs.dtype(), inputs.shape()}...};
        if (std::find(known_.begin(), known_.end(), specs) != known_.end()) {
          if (Run* run = find_or_record(parts, specs, inputs...))
            return replay(parts, *run, inputs...);
        } else {
          // What is recorded for other shapes finds buffers where they were.
          std::optional<detail::BuffersBefore<A>> buffers;
          if (!runs_.empty() && still_fits(parts, *runs_.back())) buffers.emplace(parts);
          const detail::GeneratorsBefore generators(parts);
          auto results = as_written(parts, inputs...);
          if (buffers) buffers->write();
          known_.push_back(specs);
          if (generators.others_drew() && why_not_.empty())
            why_not_ = "the step draws random numbers of a generator that is no part of the model";
          return results;
        }
      }
    }
    return as_written(parts, inputs...);
  }

  bool may_record(const nn::PartList& parts) {
    place_.reset();
    bool hooks = false;
    parts.for_each<nn::Parameter<A>>([&](const std::string&, nn::Parameter<A>& p) {
      if (!place_) place_.emplace(p.value().device());
      if (p->is_tracked())
        hooks |= !static_cast<const Leaf<B>*>(p->primitive().from.node.get())->hooks.empty();
    });
    if (!why_not_.empty()) return false;
    if (!options_.record)
      why_not_ = "the options say so";
    else if (!place_)
      why_not_ = "the model has no parameters";
    else if (place_->device().kind != DeviceKind::cuda)
      why_not_ = "the CPU runs what it is given at once";
    else if (hooks)
      why_not_ = "a leaf has hooks, which the host runs";
    return why_not_.empty() && !detail::watched();
  }

  template <class... K>
  Run* find_or_record(const nn::PartList& parts, const Specs& specs,
                      const Tensor<A, K>&... inputs) {
    const void* scale = options_.loss_scale ? options_.loss_scale->put_on(*place_) : nullptr;
    const auto at = std::find_if(runs_.begin(), runs_.end(), [&](const auto& r) {
      return r->specs == specs && r->scale == scale;
    });
    if (at != runs_.end()) {
      if (still_fits(parts, **at)) return at->get();
      runs_.clear();  // what moved, moved for all
    }
    if (runs_.size() == kMost) runs_.erase(runs_.begin());
    try {
      if (auto run = record(parts, specs, scale, inputs...)) {
        ++recorded_;
        return runs_.emplace_back(std::move(run)).get();
      }
    } catch (const Exception& e) {
      why_not_ = e.what();
      runs_.clear();
    }
    (void)nn::parts_of(model_);  // modules forget what they think they have seen
    return nullptr;
  }
  bool still_fits(const nn::PartList& parts, const Run& run) const {
    if (detail::seen<A>(parts) != run.seen || !run.generators.fit(parts)) return false;
    bool alone = true;
    detail::for_each_buffer<A>(parts, [&](const auto& b) {
      const void* place = b.value.primitive().view.data;
      if (std::find(run.written.begin(), run.written.end(), place) != run.written.end())
        alone = alone && detail::held_alone(b);
    });
    return alone;
  }

  // Null where modules decide otherwise from the next step on, as those do that have observed
  // nothing before: this one runs as it is written, and that is recorded.
  template <class... K>
  std::unique_ptr<Run> record(const nn::PartList& parts, const Specs& specs, const void* scale,
                              const Tensor<A, K>&... inputs) {
    auto run = std::make_unique<Run>();
    run->specs = specs;
    run->scale = scale;
    run->inputs = {detail::own_copy(nn::plain(inputs).primitive())...};
    // The work writes to buffers where they lie.
    detail::for_each_buffer<A>(parts, [](auto& b) {
      if (detail::held_alone(b)) return;
      using T = std::remove_cvref_t<decltype(b.value)>;
      b.value = T(typename T::Primitive{detail::own_copy(b.value.primitive())});
    });
    const auto ahead = parts.read_ahead();
    run->seen = detail::seen<A>(parts);
    run->generators = detail::Generators(parts, *place_);
    const std::uint64_t draws = Rng::draws_of_this_thread;
    const struct Generators {
      detail::GeneratorsBefore before;
      ~Generators() { before.put_back(); }
    } generators{detail::GeneratorsBefore(parts)};
    detail::BuffersBefore<A> buffers(parts);  // both put back what a run is to change
    const detail::ParametersBefore<A> parameters(parts);
    Recording recording(*place_);
    recording.draw_from(run->generators.places());
    {
      auto [found, results] = [&]<std::size_t... I>(std::index_sequence<I...>) {
        return find(parts, held<K>(run->inputs, I)...);
      }
      (std::index_sequence_for<K...>{});
      if (const std::string path = parameters.changed(); !path.empty())
        raise(ErrorCode::unsupported, "the step sets the parameter " + path);
      if (!parts.stay(ahead)) return nullptr;
      run->written = buffers.write();
      run->gradients = std::move(found.gradients);
      run->clip = std::move(found.clip);
      std::apply([&](const auto&... t) { (run->results.push_back(t.primitive()), ...); }, results);
    }
    run->generators.finish(parts, recording, Rng::draws_of_this_thread - draws);
    run->work.emplace(recording.finish());
    return run;
  }
  // An input of the recorded step, where it lies.
  template <class K>
  static Tensor<A, K> held(const std::vector<StoredView>& inputs, std::size_t i) {
    return Tensor<A, K>(Tensor<B, K>(Primitive<K>{inputs[i]}));
  }

  template <class... K>
  auto replay(const nn::PartList& parts, Run& run, const Tensor<A, K>&... inputs) {
    std::size_t i = 0;
    (detail::copy_over(nn::plain(inputs).primitive(), run.inputs[i++]), ...);
    run.generators.advance(parts);
    run.work->run();
    ++replayed_;
    using Results = decltype(find(parts, inputs...).second);
    const auto copies = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Results(
          std::tuple_element_t<I, Results>(typename std::tuple_element_t<I, Results>::Primitive{
              detail::own_copy(run.results[I])})...);
    };
    auto results = copies(std::make_index_sequence<std::tuple_size_v<Results>>{});
    update(parts, std::get<0>(results), run.gradients, run.clip, true);
    return results;
  }

  Module& model_;
  Optimizer& optimizer_;
  Loss loss_;
  StepOptions options_;
  std::optional<typename B::Device> place_;
  std::string why_not_;
  std::vector<Specs> known_;  // a step of which has run as it is written
  std::vector<std::unique_ptr<Run>> runs_;
  std::int64_t steps_ = 0, recorded_ = 0, replayed_ = 0;
};

}  // namespace planck::train
