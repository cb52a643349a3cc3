// Gradients of convolutions. The three ops are one trilinear form, Σ x weight dy, by one of its
// arguments: each is the gradient of the other two.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/conv/conv.functions.h"

namespace planck {

namespace conv_detail {

inline std::array<std::int64_t, 2> last_two(const Shape& shape) { return {shape[2], shape[3]}; }

}  // namespace conv_detail

template <class R>
auto pullback(const Conv2d& op, const R& r) {
  return [op, x = in<0>(r, r.needs(1)), w = in<1>(r, r.needs(0)),
          image = conv_detail::last_two(shape_of<0>(r)),
          kernel = conv_detail::last_two(shape_of<1>(r))](auto& g) {
    if (g.needs(0)) g.give(0, call(Conv2dInput{op.options, image, op.math}, g.dy(), g[w]));
    if (g.needs(1)) g.give(1, call(Conv2dWeight{op.options, kernel, op.math}, g[x], g.dy()));
  };
}
template <class R>
auto pullback(const Conv2dInput& op, const R& r) {
  return [op, dy = in<0>(r, r.needs(1)), w = in<1>(r, r.needs(0)),
          kernel = conv_detail::last_two(shape_of<1>(r))](auto& g) {
    if (g.needs(0)) g.give(0, call(Conv2d{op.options, op.math}, g.dy(), g[w]));
    if (g.needs(1)) g.give(1, call(Conv2dWeight{op.options, kernel, op.math}, g.dy(), g[dy]));
  };
}
template <class R>
auto pullback(const Conv2dWeight& op, const R& r) {
  return [op, x = in<0>(r, r.needs(1)), dy = in<1>(r, r.needs(0)),
          image = conv_detail::last_two(shape_of<0>(r))](auto& g) {
    if (g.needs(0)) g.give(0, call(Conv2dInput{op.options, image, op.math}, g[dy], g.dy()));
    if (g.needs(1)) g.give(1, call(Conv2d{op.options, op.math}, g[x], g.dy()));
  };
}

}  // namespace planck
