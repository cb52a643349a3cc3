// What optimizers share: tensors kept for each parameter, and a state that can be saved.
#pragma once

#include "planck/nn/state.h"
#include "planck/optim/gradients.h"

namespace planck::optim {

// Tensors kept between steps, by the name of the slot and the path of the parameter.
template <class B>
using Slots = std::map<std::string, Tensor<B>, std::less<>>;

// Writes the tensors of a slot into a state.
template <class B>
void add_to_state(nn::StateDict& state, std::string_view slot, const Slots<B>& slots) {
  for (const auto& [path, t] : slots) state[std::string(slot) + "." + path] = nn::to_entry(t);
}
// Reads them back.
template <class B>
Slots<B> slots_of(const nn::StateDict& state, std::string_view slot,
                  const typename B::Device& device) {
  Slots<B> slots;
  for (const auto& [path, e] : nn::without_prefix(std::string(slot) + ".", state))
    slots.emplace(path, nn::to_tensor<B, FloatKind>(e, device));
  return slots;
}

// Calls f(path, parameter, gradient) for every parameter that has a gradient.
template <class A, class F>
void for_each_gradient(const nn::PartList& parts, const ModelGradients<nn::Inner<A>>& gradients,
                       F f) {
  parts.for_each<nn::Parameter<A>>([&](const std::string& path, nn::Parameter<A>& p) {
    if (const auto g = gradients.find(path); g != gradients.end()) f(path, p, g->second);
  });
}

}  // namespace planck::optim
