// Adam and AdamW:   m ← β₁ m + (1 − β₁) g;   v ← β₂ v + (1 − β₂) g²;
//   w ← w − rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε).
// Weight decay is added to the gradient (Adam), or taken off the weight, w ← w − rate · decay · w,
// where it is decoupled (AdamW). β₁ᵗ and β₂ᵗ are products, not powers: the same bits everywhere.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim {

struct AdamOptions {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;  // AdamW
};

// Scalars of one step, rounded in the library so that no caller's compiler flags change them.
struct AdamScalars {
  double size, spread, keep;  // rate / (1 − β₁ᵗ), 1 / √(1 − β₂ᵗ), 1 − rate · decay
};
// The scalars of a step, from β₁ᵗ and β₂ᵗ.
AdamScalars adam_scalars(const AdamOptions& options, double power1, double power2);

// Adam and AdamW.
template <class A>
class Adam {
 public:
  using B = nn::Inner<A>;
  AdamOptions options;
  explicit Adam(const AdamOptions& o) : options(o) {}

  template <class Module>
  void step(Module& module, const ModelGradients<B>& gradients) {
    step(nn::parts_of(module), gradients);
  }
  void step(const nn::PartList& parts, const ModelGradients<B>& gradients);
  nn::StateDict state() const;
  void load_state(const nn::StateDict& s, const typename B::Device& device = B::default_device());

 private:
  Slots<B> mean_, square_;
  double power1_ = 1, power2_ = 1;
};

template <class A>
void Adam<A>::step(const nn::PartList& parts, const ModelGradients<B>& gradients) {
  power1_ *= options.beta1;
  power2_ *= options.beta2;
  const auto scalars = adam_scalars(options, power1_, power2_);
  for_each_gradient<A>(parts, gradients,
                       [&](const std::string& path, nn::Parameter<A>& p, Tensor<B> g) {
                         auto w = p.value();
                         if (options.weight_decay != 0) {
                           if (options.decoupled)
                             w = w * scalars.keep;
                           else
                             g = g + w * options.weight_decay;
                         }
                         auto& m = mean_.try_emplace(path, zeros_like(g)).first->second;
                         auto& v = square_.try_emplace(path, zeros_like(g)).first->second;
                         m = std::move(m) * options.beta1 + g * (1 - options.beta1);
                         v = std::move(v) * options.beta2 + square(g) * (1 - options.beta2);
                         p.set(w - (m * scalars.size) / (sqrt(v) * scalars.spread + options.eps));
                       });
}
template <class A>
nn::StateDict Adam<A>::state() const {
  nn::StateDict s;
  add_to_state(s, "mean", mean_);
  add_to_state(s, "square", square_);
  const double powers[] = {power1_, power2_};
  s["powers"] = nn::entry_of(powers);
  return s;
}
template <class A>
void Adam<A>::load_state(const nn::StateDict& s, const typename B::Device& device) {
  mean_ = slots_of<B>(s, "mean", device);
  square_ = slots_of<B>(s, "square", device);
  const auto powers = nn::find_numbers(s, "powers", 2);
  power1_ = powers[0];
  power2_ = powers[1];
}

}  // namespace planck::optim
