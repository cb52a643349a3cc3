// One training run: what is trained on which text, step by step, and its checkpoints. A run that
// goes on from a checkpoint has the bits of one that was never interrupted, and so has one on any
// number of workers: a batch is cut into grains, and its gradient is the sum over these in one
// order (docs/distributed.md).
#pragma once

#include <fmt/format.h>

#include <optional>

#include "model.h"
#include "planck/dist/data_parallel.h"
#include "planck/io/sha256.h"
#include "planck/train/step.h"
#include "text.h"

namespace gpt {

struct RunOptions {
  Size size = kPresets[0].second;
  std::int64_t batch = 16, length = 128, steps = 1000;
  std::int64_t grains = 1;  // of a batch; as many workers have something to do
  double rate = 1e-3, highest_norm = 1;
  Dtype dtype = Dtype::f32;
  std::uint64_t seed = 1;
  bool recompute = false;  // blocks are computed again in the backward pass; changes no bit
  bool record = true;      // steps on a GPU, as one piece of work; changes no bit
};

template <class A>
class Run {
 public:
  using B = nn::Inner<A>;

  Run(const RunOptions& options, const std::string& text, const typename B::Device& device,
      dist::Communicator* workers = nullptr)
      : options_(options),
        device_(device),
        workers_(workers == nullptr ? alone_ : *workers),
        rng_{.seed = options.seed},
        model_(rng_, options.size, options.length, {device, options.dtype}),
        adam_({.rate = options.rate, .beta2 = 0.95, .weight_decay = 0.1}),
        text_(Tokens(options.size.vocabulary).encoded(text)) {
    const auto least = options.length + 1;
    if (static_cast<std::int64_t>(text_.size()) < least)
      refuse("gpt: the text has {} bytes, sequences of {} need {}",
             {static_cast<std::int64_t>(text_.size()), options.length, least});
    if (options.grains < 1 || options.grains > options.batch)
      refuse("gpt: {} grains of a batch of {}: must be from 1 to as many as it has",
             {options.grains, options.batch});
    for (const char* end : {"bias", "before_attention.weight", "before_mlp.weight", "last.weight"})
      adam_.groups.push_back(
          {optim::ending_with(end), {.rate = options.rate, .beta2 = 0.95, .weight_decay = 0}});
    model_.recompute = options.recompute;
    Sha256 hash;
    hash.update(std::as_bytes(std::span(text)));
    description_ = described(hash.hex());
  }

  Run(const Run&) = delete;

  Gpt<A>& model() { return model_; }
  std::int64_t step_count() const { return step_; }
  double seconds_waited() const { return seconds_waited_; }  // for other workers
  // All that decides the bits, in words.
  const std::string& description() const { return description_; }
  std::string hash() { return nn::sha256_of(nn::state(model_)); }
  std::int64_t parameters() {
    std::int64_t count = 0;
    nn::for_each_parameter<A>(model_, [&](const std::string&, auto& p) { count += p->numel(); });
    return count;
  }

  // One step; the loss stays on the device.
  Tensor<B> step() {
    adam_.rate_factor =
        optim::warm_up(step_, options_.steps / 20) * optim::cosine(step_, options_.steps, 0.1);
    if (workers_.size() > 1 || options_.grains > 1) {
      loss_ = parallel_step();
    } else {
      const auto [in, next] = rows(0, options_.batch);
      loss_ = blamed(step_ + 1, [&] { return whole_(in, next); });
    }
    ++step_;
    return *loss_;
  }
  // Why steps on a GPU are not one recorded piece of work; "" where they are.
  const std::string& why_not_recorded() const { return whole_.why_not(); }
  // Of the last step; refuses one that is no number, or none that a run comes back from.
  double loss() {
    const auto value =
        static_cast<double>(blamed(step_, [&] { return loss_.value().template item<float>(); }));
    if (!is_good(value)) refuse("gpt: the loss of step {} is {}", {step_, value});
    seen_ = step_;
    return value;
  }

  // Where the samples of a step begin in the text, which its number alone decides.
  std::vector<std::int64_t> places(std::int64_t step) const {
    Rng rng{.seed = options_.seed + 1, .offset = static_cast<std::uint64_t>(step * options_.batch)};
    const auto last = static_cast<std::int64_t>(text_.size()) - options_.length;
    return randint<Cpu>(rng, 0, last, {options_.batch}).template to_vector<std::int64_t>();
  }

  // A run that went wrong is not saved: the checkpoint of before stays. The first worker writes.
  void save(const std::string& path) {
    if (workers_.rank() != 0) return;
    if (loss_) (void)loss();
    if (const std::string part = not_finite(); !part.empty())
      refuse("gpt: {} is not finite after step {}; {} stays as it was", {part, step_, path});
    auto state = nn::with_prefix("model.", nn::state(model_));
    state.merge(nn::with_prefix("adam.", adam_.state()));
    state.merge(nn::with_prefix("scale.", scale_.state()));
    state["step"] = nn::entry_of(std::span<const std::int64_t>(&step_, 1));
    value_or_throw(nn::save_state(path, state, {{"gpt", description_}}));
  }
  void resume(const std::string& path) {
    const auto [state, metadata] = value_or_throw(nn::read_state(path));
    const auto of = metadata.find("gpt");
    if (of == metadata.end() || of->second != description_)
      refuse("gpt: {} is of a run with {}, this one has {}",
             {path, of == metadata.end() ? "no options" : of->second, description_});
    nn::load_state(model_, nn::without_prefix("model.", state));
    adam_.load_state(nn::without_prefix("adam.", state), device_);
    scale_.load_state(nn::without_prefix("scale.", state));
    step_ = seen_ = nn::find_integers(state, "step", 1)[0];
  }

 private:
  static bool is_good(double loss) { return loss < 1e30; }
  // The first parameter that is not finite, or "".
  std::string not_finite() {
    std::string found;
    nn::for_each_parameter<A>(model_, [&](const std::string& part, auto& p) {
      const auto zero = sum(nn::widened(p.value()) * 0).to(Dtype::f32);
      if (found.empty() && zero.template item<float>() != 0) found = part;
    });
    return found;
  }
  // f(), which may throw that the loss of one of the steps up to `last` was no number. On a GPU
  // that comes late, but no step has changed anything since: the sample is found by looking again.
  template <class F>
  auto blamed(std::int64_t last, const F& f) {
    try {
      return f();
    } catch (const Exception& e) {
      if (e.code() != ErrorCode::not_a_number) throw;
      const NoGrad no_graph;
      for (step_ = seen_; step_ < last; ++step_) {
        const auto all = losses(0, options_.batch, nn::Reduction::mean);
        check_loss(static_cast<double>(all.template item<float>()));
      }
      throw;
    }
  }
  // Of the step that is under way, before it changes anything: the sample to blame is named.
  void check_loss(double value) {
    if (is_good(value)) return;
    const NoGrad no_graph;
    const std::string part = not_finite();
    const std::string why = part.empty() ? "" : part + " is not finite; ";
    const auto all = places(step_);
    for (std::int64_t row = 0; row < options_.batch; ++row) {
      const auto each = losses(row, row + 1, nn::Reduction::none).template to_vector<float>();
      for (std::size_t i = 0; i < each.size(); ++i)
        if (!is_good(static_cast<double>(each[i])))
          refuse(
              "gpt: the loss of step {} is {}: {}sample {}, which begins at byte {} of the text, "
              "has {} at its token {}",
              {step_ + 1, value, why, row, all[static_cast<std::size_t>(row)],
               static_cast<double>(each[i]), static_cast<std::int64_t>(i)});
    }
    refuse("gpt: the loss of step {} is {}", {step_ + 1, value});
  }
  // Of the tokens that follow those of some rows of the batch.
  Tensor<A> losses(const Tensor<A, IntKind>& in, const Tensor<A, IntKind>& next,
                   nn::Reduction reduction) const {
    const auto logits = reshape(model_(in), {-1, options_.size.vocabulary});
    const auto loss =
        nn::cross_entropy_loss<A>(logits, next, {.reduction = reduction, .wide = true});
    return nn::as_dtype(loss, Dtype::f32);
  }
  Tensor<A> losses(std::int64_t first, std::int64_t end, nn::Reduction reduction) const {
    const auto [in, next] = rows(first, end);
    return losses(in, next, reduction);
  }
  // Of the whole batch. On a GPU the device looks at it, and the host later: loss(), save().
  Tensor<A> checked_loss(const Tensor<A, IntKind>& in, const Tensor<A, IntKind>& next) {
    const auto loss = losses(in, next, nn::Reduction::mean);
    if (device_.device().kind == DeviceKind::cpu)
      check_loss(static_cast<double>(loss.inner().template item<float>()));
    return loss;
  }
  // A grain's part of the loss: of some rows of the batch.
  Tensor<A> loss_of(std::int64_t grain) const {
    const std::int64_t first = grain * options_.batch / options_.grains,
                       end = (grain + 1) * options_.batch / options_.grains;
    const auto loss = losses(first, end, nn::Reduction::mean);
    if (options_.grains == 1) return loss;
    return loss * (static_cast<double>(end - first) / static_cast<double>(options_.batch));
  }
  // A step of several grains; its loss.
  Tensor<B> parallel_step() {
    const bool scaled = options_.dtype == Dtype::f16;
    const auto found = parallel_(model_, options_.grains, [&](std::int64_t grain) {
      const auto loss = loss_of(grain);
      return scaled ? scale_(loss) : loss;
    });
    const double factor = scaled ? 1 / scale_.value() : 1;
    seconds_waited_ += found.seconds_waited;
    check_loss(found.loss * factor);
    if (scaled)
      scale_.step(adam_, model_, found.gradients, options_.highest_norm);
    else
      adam_.step(model_, found.gradients, optim::clip(found.gradients, options_.highest_norm));
    return full<B>({}, found.loss, Dtype::f32, device_) * factor;
  }
  // Windows of the text there, and what follows each token.
  std::pair<Tensor<A, IntKind>, Tensor<A, IntKind>> rows(std::int64_t first,
                                                         std::int64_t end) const {
    const auto length = options_.length;
    const auto all = places(step_);
    std::vector<std::int64_t> in, next;
    for (std::int64_t row = first; row < end; ++row)
      for (std::int64_t i = 0; i < length; ++i) {
        const auto at = static_cast<std::size_t>(all[static_cast<std::size_t>(row)] + i);
        in.push_back(text_[at]);
        next.push_back(text_[at + 1]);
      }
    return {Tensor<A, IntKind>::from(in, {end - first, length}, device_),
            Tensor<A, IntKind>::from(next, {(end - first) * length}, device_)};
  }
  // All that a checkpoint must agree with: what decides the bits.
  std::string described(const std::string& text_hash) const {
    const auto& [o, s] = std::tie(options_, options_.size);
    return fmt::format(
        "{} {} vocabulary {} width {} heads {} blocks {} batch {} length {} steps {} grains {} "
        "rate {} seed {} text {}",
        name(o.dtype), name(device_.product_math(o.dtype)), s.vocabulary, s.width, s.heads,
        s.blocks, o.batch, o.length, o.steps, o.grains, o.rate, o.seed, text_hash);
  }

  RunOptions options_;
  typename B::Device device_;
  dist::Alone alone_;
  dist::Communicator& workers_;
  Rng rng_;
  Gpt<A> model_;
  optim::Adam<A> adam_;
  optim::LossScale scale_;
  dist::DataParallel<A> parallel_{workers_};
  // A batch that is one grain.
  using LossOf = std::function<Tensor<A>(const Tensor<A, IntKind>&, const Tensor<A, IntKind>&)>;
  train::Step<Gpt<A>, optim::Adam<A>, LossOf> whole_{
      model_,
      adam_,
      [this](const auto& in, const auto& next) { return checked_loss(in, next); },
      {.highest_norm = options_.highest_norm,
       .loss_scale = options_.dtype == Dtype::f16 ? &scale_ : nullptr,
       .check_loss = device_.device().kind == DeviceKind::cuda,
       .record = options_.record}};
  std::vector<std::int64_t> text_;
  std::string description_;
  std::optional<Tensor<B>> loss_;     // of the last step
  std::int64_t step_ = 0, seen_ = 0;  // steps done; those whose losses the host knows to be good
  double seconds_waited_ = 0;
};

}  // namespace gpt
