// A small convolutional model of 8 × 8 digits whose layers can be quantized.
#pragma once

#include "planck/training.h"

template <class B>
struct DigitNet {
  planck::nn::Quantizable<planck::nn::Conv2d<B>> conv;
  planck::nn::BatchNorm<B> norm;
  planck::nn::Quantizable<planck::nn::Linear<B>> hidden, output;

  explicit DigitNet(planck::Rng& rng)
      : conv(planck::nn::Conv2d<B>(rng, {.in = 1, .out = 12, .shape = {.padding = {1, 1}}})),
        norm(12),
        hidden(planck::nn::Linear<B>(rng, {12 * 4 * 4, 32})),
        output(planck::nn::Linear<B>(rng, {32, 10})) {}

  // [N, 1, 8, 8] → [N, 10]
  planck::Tensor<B> operator()(const planck::Tensor<B>& x) {
    const auto seen = max_pool2d(relu(norm(conv(x))), {.kernel = {2, 2}});
    return output(relu(hidden(reshape(seen, {x.extent(0), -1}))));
  }
  void visit(auto&& part) {
    part("conv", conv);
    part("norm", norm);
    part("hidden", hidden);
    part("output", output);
  }
};
