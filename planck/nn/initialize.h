// First values of parameters: functions of a generator alone, the same on every device, in any
// dtype: those of narrower floats are rounded from the f32 ones.
#pragma once

#include "planck/nn/module.h"

namespace planck::nn {

// 1/√fan_in; 0 where nothing goes in.
double fan_in_bound(std::int64_t fan_in);
// Uniform in ±fan_in_bound.
template <class B>
Parameter<B> fan_in_uniform(Rng& rng, const Shape& shape, std::int64_t fan_in,
                            const Options<B>& options) {
  const double bound = fan_in_bound(fan_in);
  return Parameter<B>(uniform<Inner<B>>(rng, shape, -bound, bound, options.dtype, options.device));
}
// One value everywhere.
template <class B>
Parameter<B> filled(const Shape& shape, double value, const Options<B>& options) {
  return Parameter<B>(full<Inner<B>>(shape, value, options.dtype, options.device));
}
// A bias like fan_in_uniform, or none.
template <class B>
std::optional<Parameter<B>> optional_bias(bool wanted, Rng& rng, std::int64_t count,
                                          std::int64_t fan_in, const Options<B>& options) {
  if (!wanted) return std::nullopt;
  return fan_in_uniform<B>(rng, {count}, fan_in, options);
}

}  // namespace planck::nn
