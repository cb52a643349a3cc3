// First values of parameters: functions of a generator alone, the same on every device.
#pragma once

#include <cmath>

#include "planck/nn/module.h"

namespace planck::nn {

// Uniform in ±1/√fan_in.
template <class B>
Parameter<B> fan_in_uniform(Rng& rng, const Shape& shape, std::int64_t fan_in,
                            const typename B::Device& device) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return Parameter<B>(uniform<Inner<B>>(rng, shape, -bound, bound, Dtype::f32, device));
}
// One value everywhere.
template <class B>
Parameter<B> filled(const Shape& shape, double value, const typename B::Device& device) {
  return Parameter<B>(full<Inner<B>>(shape, value, Dtype::f32, device));
}
// A bias like fan_in_uniform, or none.
template <class B>
std::optional<Parameter<B>> optional_bias(bool wanted, Rng& rng, std::int64_t count,
                                          std::int64_t fan_in, const typename B::Device& device) {
  if (!wanted) return std::nullopt;
  return fan_in_uniform<B>(rng, {count}, fan_in, device);
}

}  // namespace planck::nn
