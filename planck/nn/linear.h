// Linear: y = x Wᵀ + b over the last axis. weight [out, in], bias [out].
#pragma once

#include "planck/nn/initialize.h"
#include "planck/ops/matmul/matmul.functions.h"

namespace planck::nn {

// Extents of the last axis, before and after.
struct LinearOptions {
  std::int64_t in = 0, out = 0;
  bool bias = true;
};

// y = x Wᵀ + b over the last axis.
template <class B>
struct Linear {
  LinearOptions options;
  Parameter<B> weight;
  std::optional<Parameter<B>> bias;

  Linear(Rng& rng, const LinearOptions& o, const Options<B>& at = {});

  Tensor<B> operator()(const Tensor<B>& x) const { return (*this)(x, Activation::none); }
  // activation(y), and residual + y: the bits of two ops, in one where that is faster.
  Tensor<B> operator()(const Tensor<B>& x, Activation activation) const;
  Tensor<B> operator()(const Tensor<B>& x, const Tensor<B>& residual) const;
  void visit(auto&& part) {
    part("weight", weight);
    part("bias", bias);
  }
};

template <class B>
Linear<B>::Linear(Rng& rng, const LinearOptions& o, const Options<B>& at)
    : options(o),
      weight(fan_in_uniform<B>(rng, {o.out, o.in}, o.in, at)),
      bias(optional_bias<B>(o.bias, rng, o.out, o.in, at)) {}
template <class B>
auto Linear<B>::operator()(const Tensor<B>& x, Activation activation) const -> Tensor<B> {
  const MatmulOptions follows{.activation = activation};
  return bias ? matmul(x, transpose(*weight), **bias, follows)
              : matmul(x, transpose(*weight), follows);
}
template <class B>
auto Linear<B>::operator()(const Tensor<B>& x, const Tensor<B>& residual) const -> Tensor<B> {
  return matmul(x, transpose(*weight), bias ? std::optional(**bias) : std::nullopt, residual);
}

}  // namespace planck::nn
