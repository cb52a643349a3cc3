// Convolutions of images: Conv2d, weight [out, in / groups, KH, KW]; ConvTranspose2d, its adjoint,
// weight [in, out / groups, KH, KW]. Lines are in conv1d.h, volumes in conv3d.h.
#pragma once

#include "planck/nn/initialize.h"
#include "planck/ops/conv/conv.functions.h"

namespace planck::nn {

// Of both convolutions.
struct ConvOptions {
  std::int64_t in = 0, out = 0;
  std::array<std::int64_t, 2> kernel{3, 3};
  Conv2dOptions shape = {};                          // stride, padding, dilation, groups
  std::array<std::int64_t, 2> output_padding{0, 0};  // of ConvTranspose2d
  bool bias = true;
};

namespace detail {
template <class O>
const O& checked(const O& o) {
  if (o.shape.groups < 1 || o.in % o.shape.groups != 0 || o.out % o.shape.groups != 0)
    refuse("conv: {} channels in and {} out do not divide into {} groups",
           {o.in, o.out, o.shape.groups});
  return o;
}
}  // namespace detail

// One number per channel, as it adds to [N, C, H, W].
template <class B>
Tensor<B> per_channel(const Tensor<B>& bias) {
  return reshape(bias, {bias.extent(0), 1, 1});
}

namespace detail {
// y + bias, where there is one: a number per channel, the second axis.
template <class B>
Tensor<B> with_bias(Tensor<B> y, const std::optional<Parameter<B>>& bias) {
  if (!bias) return y;
  Shape channels{y.extent(1)};
  for (int d = 2; d < y.rank(); ++d) channels.push_back(1);
  return std::move(y) + reshape(**bias, channels);
}
}  // namespace detail

// [N, in, H, W] → [N, out, OH, OW]
template <class B>
struct Conv2d {
  ConvOptions options;
  Parameter<B> weight;
  std::optional<Parameter<B>> bias;

  Conv2d(Rng& rng, const ConvOptions& o, const Options<B>& at = {});

  Tensor<B> operator()(const Tensor<B>& x) const;
  void visit(auto&& part) {
    part("weight", weight);
    part("bias", bias);
  }
  static std::int64_t fan_in(const ConvOptions& o) {
    return o.in / o.shape.groups * o.kernel[0] * o.kernel[1];
  }
};

template <class B>
Conv2d<B>::Conv2d(Rng& rng, const ConvOptions& o, const Options<B>& at)
    : options(detail::checked(o)),
      weight(fan_in_uniform<B>(rng, {o.out, o.in / o.shape.groups, o.kernel[0], o.kernel[1]},
                               fan_in(o), at)),
      bias(optional_bias<B>(o.bias, rng, o.out, fan_in(o), at)) {}
template <class B>
auto Conv2d<B>::operator()(const Tensor<B>& x) const -> Tensor<B> {
  return detail::with_bias(conv2d(x, *weight, options.shape), bias);
}

// The adjoint of Conv2d: its gradient by the input, as a layer.
template <class B>
struct ConvTranspose2d {
  ConvOptions options;
  Parameter<B> weight;
  std::optional<Parameter<B>> bias;

  ConvTranspose2d(Rng& rng, const ConvOptions& o, const Options<B>& at = {});

  Tensor<B> operator()(const Tensor<B>& x) const;
  void visit(auto&& part) {
    part("weight", weight);
    part("bias", bias);
  }
  static std::int64_t fan_in(const ConvOptions& o) {
    return o.out / o.shape.groups * o.kernel[0] * o.kernel[1];
  }
};

template <class B>
ConvTranspose2d<B>::ConvTranspose2d(Rng& rng, const ConvOptions& o, const Options<B>& at)
    : options(detail::checked(o)),
      weight(fan_in_uniform<B>(rng, {o.in, o.out / o.shape.groups, o.kernel[0], o.kernel[1]},
                               fan_in(o), at)),
      bias(optional_bias<B>(o.bias, rng, o.out, fan_in(o), at)) {}
template <class B>
auto ConvTranspose2d<B>::operator()(const Tensor<B>& x) const -> Tensor<B> {
  return detail::with_bias(conv_transpose2d(x, *weight, options.shape, options.output_padding),
                           bias);
}

}  // namespace planck::nn
