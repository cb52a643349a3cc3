// Stochastic gradient descent:   g ← g + decay · w;   v ← momentum · v + g   (v = g at first);
// w ← w − rate · v,   or with Nesterov   w ← w − rate · (g + momentum · v).
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim {

struct SgdOptions {
  double rate = 0.1, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

// Stochastic gradient descent, with momentum and Nesterov.
template <class A>
class Sgd {
 public:
  using B = nn::Inner<A>;
  SgdOptions options;
  explicit Sgd(const SgdOptions& o) : options(o) {}

  template <class Module>
  void step(Module& module, const ModelGradients<B>& gradients) {
    for_each_gradient<A>(module, gradients, [&](const std::string& path, auto& p, Tensor<B> g) {
      const auto w = p.value();
      if (options.weight_decay != 0) g = g + w * options.weight_decay;
      if (options.momentum != 0) {
        const auto [v, fresh] = velocity_.try_emplace(path, g);
        if (!fresh) v->second = std::move(v->second) * options.momentum + g;
        g = options.nesterov ? g + v->second * options.momentum : v->second;
      }
      p.set(w - g * options.rate);
    });
  }
  nn::StateDict state() const {
    nn::StateDict s;
    add_to_state(s, "velocity", velocity_);
    return s;
  }
  void load_state(const nn::StateDict& s, const typename B::Device& device = B::default_device()) {
    velocity_ = slots_of<B>(s, "velocity", device);
  }

 private:
  Slots<B> velocity_;
};

}  // namespace planck::optim
