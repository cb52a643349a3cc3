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
    step(nn::parts_of(module), gradients);
  }
  void step(const nn::PartList& parts, const ModelGradients<B>& gradients);
  nn::StateDict state() const;
  void load_state(const nn::StateDict& s, const typename B::Device& device = B::default_device());

 private:
  Slots<B> velocity_;
};

template <class A>
void Sgd<A>::step(const nn::PartList& parts, const ModelGradients<B>& gradients) {
  for_each_gradient<A>(parts, gradients,
                       [&](const std::string& path, nn::Parameter<A>& p, Tensor<B> g) {
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
template <class A>
nn::StateDict Sgd<A>::state() const {
  nn::StateDict s;
  add_to_state(s, "velocity", velocity_);
  return s;
}
template <class A>
void Sgd<A>::load_state(const nn::StateDict& s, const typename B::Device& device) {
  velocity_ = slots_of<B>(s, "velocity", device);
}

}  // namespace planck::optim
