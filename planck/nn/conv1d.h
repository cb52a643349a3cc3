// Convolutions of lines: Conv1d, weight [out, in / groups, K]; ConvTranspose1d, its adjoint, weight
// [in, out / groups, K].
#pragma once

#include "planck/nn/conv.h"

namespace planck::nn {

// Of both convolutions of lines.
struct ConvLineOptions {
  std::int64_t in = 0, out = 0, kernel = 3;
  Conv1dOptions shape = {};         // stride, padding, dilation, groups
  std::int64_t output_padding = 0;  // of ConvTranspose1d
  bool bias = true;
};

// [N, in, L] → [N, out, OL]
template <class B>
struct Conv1d {
  ConvLineOptions options;
  Parameter<B> weight;
  std::optional<Parameter<B>> bias;

  Conv1d(Rng& rng, const ConvLineOptions& o, const Options<B>& at = {})
      : options(detail::checked(o)),
        weight(fan_in_uniform<B>(rng, {o.out, o.in / o.shape.groups, o.kernel}, fan_in(o), at)),
        bias(optional_bias<B>(o.bias, rng, o.out, fan_in(o), at)) {}

  Tensor<B> operator()(const Tensor<B>& x) const {
    return detail::with_bias(conv1d(x, *weight, options.shape), bias);
  }
  void visit(auto&& part) {
    part("weight", weight);
    part("bias", bias);
  }
  static std::int64_t fan_in(const ConvLineOptions& o) { return o.in / o.shape.groups * o.kernel; }
};

// The adjoint of Conv1d: its gradient by the input, as a layer.
template <class B>
struct ConvTranspose1d {
  ConvLineOptions options;
  Parameter<B> weight;
  std::optional<Parameter<B>> bias;

  ConvTranspose1d(Rng& rng, const ConvLineOptions& o, const Options<B>& at = {})
      : options(detail::checked(o)),
        weight(fan_in_uniform<B>(rng, {o.in, o.out / o.shape.groups, o.kernel}, fan_in(o), at)),
        bias(optional_bias<B>(o.bias, rng, o.out, fan_in(o), at)) {}

  Tensor<B> operator()(const Tensor<B>& x) const {
    return detail::with_bias(conv_transpose1d(x, *weight, options.shape, options.output_padding),
                             bias);
  }
  void visit(auto&& part) {
    part("weight", weight);
    part("bias", bias);
  }
  static std::int64_t fan_in(const ConvLineOptions& o) { return o.out / o.shape.groups * o.kernel; }
};

}  // namespace planck::nn
