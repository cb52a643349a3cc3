// Pooling on tensors, over the last two axes.
#pragma once

#include <tuple>

#include "planck/backend/call.h"
#include "planck/ops/pool/pool.ops.h"

namespace planck {

// The largest pixel of each window, and its place h * W + w in the plane. K: floats, or s8.
template <class B, class K>
std::tuple<Tensor<B, K>, Tensor<B, IntKind>> max_pool2d_with_indices(const Tensor<B, K>& x,
                                                                     const PoolOptions& options) {
  return call(MaxPool2d<K>{options}, x);
}
// The largest pixel of each window.
template <class B, class K>
Tensor<B, K> max_pool2d(const Tensor<B, K>& x, const PoolOptions& options) {
  return std::get<0>(max_pool2d_with_indices(x, options));
}

// The mean of each window.
template <class B>
Tensor<B> avg_pool2d(const Tensor<B>& x, const PoolOptions& options) {
  return call(AvgPool2d{options}, x);
}

// As many windows along each axis as `size` says; {1, 1} averages whole planes.
template <class B>
Tensor<B> adaptive_avg_pool2d(const Tensor<B>& x, const PoolPair& size) {
  return call(AdaptiveAvgPool2d{size}, x);
}

}  // namespace planck
