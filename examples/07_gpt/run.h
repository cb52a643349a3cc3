// One training run: what is trained on which text, step by step, and its checkpoints. A run that
// goes on from a checkpoint has the bits of one that was never interrupted.
#pragma once

#include <optional>

#include "model.h"
#include "text.h"

namespace gpt {

struct RunOptions {
  Size size = kPresets[0].second;
  std::int64_t batch = 16, length = 128, steps = 1000;
  double rate = 1e-3, highest_norm = 1;
  Dtype dtype = Dtype::f32;
  std::uint64_t seed = 1;
};

template <class A>
class Run {
 public:
  using B = nn::Inner<A>;

  Run(const RunOptions& options, const std::string& text, const typename B::Device& device)
      : options_(options),
        device_(device),
        rng_{.seed = options.seed},
        model_(rng_, options.size, options.length, {device, options.dtype}),
        adam_({.rate = options.rate, .beta2 = 0.95, .weight_decay = 0.1}),
        text_(Tokens(options.size.vocabulary).encoded(text)) {
    const auto least = options.length + 1;
    if (static_cast<std::int64_t>(text_.size()) < least)
      refuse("gpt: the text has {} bytes, sequences of {} need {}",
             {static_cast<std::int64_t>(text_.size()), options.length, least});
    for (const char* end : {"bias", "before_attention.weight", "before_mlp.weight", "last.weight"})
      adam_.groups.push_back(
          {optim::ending_with(end), {.rate = options.rate, .beta2 = 0.95, .weight_decay = 0}});
  }

  Gpt<A>& model() { return model_; }
  std::int64_t step_count() const { return step_; }
  std::string hash() { return nn::sha256_of(nn::state(model_)); }
  std::int64_t parameters() {
    std::int64_t count = 0;
    nn::for_each_parameter<A>(model_, [&](const std::string&, auto& p) { count += p->numel(); });
    return count;
  }

  // One step; the loss stays on the device.
  Tensor<B> step() {
    const auto [in, next] = batch();
    const auto logits = reshape(model_(in), {-1, options_.size.vocabulary});
    const auto loss = nn::cross_entropy_loss(nn::as_dtype(logits, Dtype::f32), next);
    adam_.rate_factor =
        optim::warm_up(step_, options_.steps / 20) * optim::cosine(step_, options_.steps, 0.1);
    if (options_.dtype == Dtype::f16) {
      const auto gradients = optim::collect<A>(model_, scale_(loss).backward());
      scale_.step(adam_, model_, gradients, options_.highest_norm);
    } else {
      const auto gradients = optim::collect<A>(model_, loss.backward());
      adam_.step(model_, gradients, optim::clip(gradients, options_.highest_norm));
    }
    ++step_;
    return loss.inner();
  }

  void save(const std::string& path) {
    auto state = nn::with_prefix("model.", nn::state(model_));
    state.merge(nn::with_prefix("adam.", adam_.state()));
    state.merge(nn::with_prefix("scale.", scale_.state()));
    state["step"] = nn::entry_of(std::span<const std::int64_t>(&step_, 1));
    value_or_throw(nn::save_state(path, state, {{"gpt", described()}}));
  }
  void resume(const std::string& path) {
    const auto [state, metadata] = value_or_throw(nn::read_state(path));
    const auto of = metadata.find("gpt");
    if (of == metadata.end() || of->second != described())
      refuse("gpt: {} is of a run with {}, this one has {}",
             {path, of == metadata.end() ? "no options" : of->second, described()});
    nn::load_state(model_, nn::without_prefix("model.", state));
    adam_.load_state(nn::without_prefix("adam.", state), device_);
    scale_.load_state(nn::without_prefix("scale.", state));
    step_ = nn::find_integers(state, "step", 1)[0];
  }

 private:
  // Windows of the text at places that the step alone decides, and what follows each token.
  std::pair<Tensor<A, IntKind>, Tensor<A, IntKind>> batch() const {
    const auto rows = options_.batch, length = options_.length;
    Rng rng{.seed = options_.seed + 1, .offset = static_cast<std::uint64_t>(step_ * rows)};
    const auto places = static_cast<std::int64_t>(text_.size()) - length;
    std::vector<std::int64_t> in, next;
    for (const std::int64_t at :
         randint<Cpu>(rng, 0, places, {rows}).template to_vector<std::int64_t>())
      for (std::int64_t i = at; i < at + length; ++i) {
        in.push_back(text_[static_cast<std::size_t>(i)]);
        next.push_back(text_[static_cast<std::size_t>(i + 1)]);
      }
    return {Tensor<A, IntKind>::from(in, {rows, length}, device_),
            Tensor<A, IntKind>::from(next, {rows * length}, device_)};
  }
  // All that a checkpoint must agree with.
  std::string described() const {
    const auto& s = options_.size;
    std::string text(name(options_.dtype));
    for (const std::int64_t n :
         {s.vocabulary, s.width, s.heads, s.blocks, options_.batch, options_.length, options_.steps,
          static_cast<std::int64_t>(options_.seed)})
      text += " " + std::to_string(n);
    return text + " rate " + std::to_string(options_.rate);
  }

  RunOptions options_;
  typename B::Device device_;
  Rng rng_;
  Gpt<A> model_;
  optim::Adam<A> adam_;
  optim::LossScale scale_;
  std::vector<std::int64_t> text_;
  std::int64_t step_ = 0;
};

}  // namespace gpt
