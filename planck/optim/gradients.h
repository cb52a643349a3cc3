// Gradients of a model by path: collected from a backward pass, added up over several, clipped.
#pragma once

#include <cmath>
#include <map>

#include "planck/nn/module.h"
#include "planck/ops/reduce/reduce.functions.h"

namespace planck::optim {

template <class B>
using ModelGradients = std::map<std::string, Tensor<B>, std::less<>>;

template <class A>
ModelGradients<nn::Inner<A>> collect_parts(const nn::PartList& parts,
                                           const typename A::Gradients& gradients) {
  ModelGradients<nn::Inner<A>> found;
  parts.for_each<nn::Parameter<A>>([&](const std::string& path, nn::Parameter<A>& p) {
    if (auto g = p->grad(gradients)) found.emplace(path, std::move(*g));
  });
  return found;
}
// The gradient of every parameter that has one.
template <class A, class Module>
ModelGradients<nn::Inner<A>> collect(Module& module, const typename A::Gradients& gradients) {
  return collect_parts<A>(nn::parts_of(module), gradients);
}

// total += more, for gradients of several small batches.
template <class B>
void accumulate(ModelGradients<B>& total, const ModelGradients<B>& more) {
  for (const auto& [path, g] : more) {
    const auto [at, fresh] = total.try_emplace(path, g);
    if (!fresh) at->second = std::move(at->second) + g;
  }
}
// All gradients times a factor.
template <class B>
void scale(ModelGradients<B>& gradients, double factor) {
  for (auto& [path, g] : gradients) g = std::move(g) * factor;
}

// The norm of all gradients together: squares are summed tensor by tensor in the reduction's
// canonical order, then in f64 in the order of paths.
template <class B>
double norm(const ModelGradients<B>& gradients) {
  double squares = 0;
  for (const auto& [path, g] : gradients)
    squares += to_float(sum(square(g)), Dtype::f64).template item<double>();
  return std::sqrt(squares);
}
// Scales all gradients down to this norm where they exceed it. Returns the norm they had.
template <class B>
double clip_norm(ModelGradients<B>& gradients, double highest) {
  const double before = norm(gradients);
  if (before > highest) scale(gradients, highest / before);
  return before;
}

}  // namespace planck::optim
