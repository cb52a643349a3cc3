// Convolutions of volumes: Conv3d, weight [out, in / groups, KD, KH, KW].
#pragma once

#include "planck/nn/conv.h"

namespace planck::nn {

struct ConvVolumeOptions {
  std::int64_t in = 0, out = 0;
  std::array<std::int64_t, 3> kernel{3, 3, 3};
  Conv3dOptions shape = {};  // stride, padding, dilation, groups
  bool bias = true;
};

// [N, in, D, H, W] → [N, out, OD, OH, OW]
template <class B>
struct Conv3d {
  ConvVolumeOptions options;
  Parameter<B> weight;
  std::optional<Parameter<B>> bias;

  Conv3d(Rng& rng, const ConvVolumeOptions& o, const Options<B>& at = {})
      : options(detail::checked(o)),
        weight(fan_in_uniform<B>(
            rng, {o.out, o.in / o.shape.groups, o.kernel[0], o.kernel[1], o.kernel[2]}, fan_in(o),
            at)),
        bias(optional_bias<B>(o.bias, rng, o.out, fan_in(o), at)) {}

  Tensor<B> operator()(const Tensor<B>& x) const {
    return detail::with_bias(conv3d(x, *weight, options.shape), bias);
  }
  void visit(auto&& part) {
    part("weight", weight);
    part("bias", bias);
  }
  static std::int64_t fan_in(const ConvVolumeOptions& o) {
    return o.in / o.shape.groups * o.kernel[0] * o.kernel[1] * o.kernel[2];
  }
};

}  // namespace planck::nn
