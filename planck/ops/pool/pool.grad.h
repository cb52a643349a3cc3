// Gradients of pooling. Each is linear in dy, and so has derivatives of every order.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/index/index.grad.h"
#include "planck/ops/pool/pool.functions.h"
#include "planck/ops/shape/shape.grad.h"

namespace planck {

namespace pool_detail {

// H, W of input 0.
template <class R>
PoolPair image_size(const R& r) {
  const Shape shape = shape_of<0>(r);
  return {shape[shape.rank() - 2], shape[shape.rank() - 1]};
}

// [.., H, W] → [.., H * W]
template <class T>
T flat_planes(const T& x) {
  Shape shape;
  for (int d = 0; d + 2 < x.rank(); ++d) shape.push_back(x.shape()[d]);
  shape.push_back(x.shape()[x.rank() - 2] * x.shape()[x.rank() - 1]);
  return reshape(x, shape);
}

}  // namespace pool_detail

template <class R>
auto pullback(const MaxPool2d<FloatKind>& op, const R& r) {
  return [options = op.options, size = pool_detail::image_size(r), indices = out<1>(r)](auto& g) {
    g.give(0, call(MaxPool2dBackward{options, size}, g.dy(0), indices));
  };
}
// What a window passed back came from its dy: the pixel it chose, or nothing (index −1).
template <class R>
auto pullback(const MaxPool2dBackward&, const R& r) {
  return [indices = in<1>(r)](auto& g) {
    const auto pixels = pool_detail::flat_planes(g.dy());
    const auto chosen = index_detail::first_of(Gather<FloatKind>{{pixels.rank() - 1}}, pixels,
                                               pool_detail::flat_planes(indices));
    g.give(0, reshape(chosen, indices.shape()));
  };
}

template <class R>
auto pullback(const AvgPool2d& op, const R& r) {
  return [options = op.options, size = pool_detail::image_size(r)](auto& g) {
    g.give(0, call(AvgPool2dBackward{options, size}, g.dy()));
  };
}
template <class R>
auto pullback(const AvgPool2dBackward& op, const R&) {
  return [options = op.options](auto& g) { g.give(0, avg_pool2d(g.dy(), options)); };
}
template <class R>
auto pullback(const AdaptiveAvgPool2d&, const R& r) {
  return [size = pool_detail::image_size(r)](auto& g) {
    g.give(0, call(AdaptiveAvgPool2dBackward{size}, g.dy()));
  };
}
template <class R>
auto pullback(const AdaptiveAvgPool2dBackward&, const R& r) {
  return [size = pool_detail::image_size(r)](auto& g) {
    g.give(0, adaptive_avg_pool2d(g.dy(), size));
  };
}

}  // namespace planck
