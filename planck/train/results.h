// What the function of a step gives: the loss, or a tuple that begins with it.
#pragma once

#include <tuple>

#include "planck/nn/parameter.h"

namespace planck::train::detail {

// As a tuple without history.
template <class B, class K>
auto results_of(const Tensor<B, K>& loss) {
  return std::tuple(nn::plain(loss));
}
template <class Tuple>
auto results_of(const Tuple& all) {
  return std::apply([](const auto&... t) { return std::tuple(nn::plain(t)...); }, all);
}
template <class B, class K>
const Tensor<B, K>& loss_of(const Tensor<B, K>& loss) {
  return loss;
}
template <class Tuple>
const auto& loss_of(const Tuple& all) {
  return std::get<0>(all);
}

}  // namespace planck::train::detail
