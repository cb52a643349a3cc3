// Losses: one number, the mean over what they are given.
#pragma once

#include "planck/ops/softmax/softmax.functions.h"

namespace planck::nn {

// −log softmax(logits)[target]
template <class B>
Tensor<B> cross_entropy_loss(const Tensor<B>& logits, const Tensor<B, IntKind>& targets) {
  return mean(cross_entropy(logits, targets));
}
// (y − target)²
template <class B>
Tensor<B> mse_loss(const Tensor<B>& y, const Tensor<B>& target) {
  return mean(square(y - target));
}
// |y − target|
template <class B>
Tensor<B> l1_loss(const Tensor<B>& y, const Tensor<B>& target) {
  return mean(abs(y - target));
}
// −t log σ(x) − (1 − t) log(1 − σ(x)), without overflow or cancellation.
template <class B>
Tensor<B> bce_with_logits_loss(const Tensor<B>& x, const Tensor<B>& target) {
  return mean(target * softplus(-x) + (1 - target) * softplus(x));
}

}  // namespace planck::nn
