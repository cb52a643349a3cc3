// Gradients of sorting: each goes back to where its value came from.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/index/index.grad.h"
#include "planck/ops/sort/sampling.functions.h"
#include "planck/ops/sort/sort.functions.h"

namespace planck {

namespace sort_detail {

template <class R>
auto pullback_of_order(int axis, const R& r) {
  return [axis, shape = shape_of<0>(r), indices = out<1>(r)](auto& g) {
    g.give(0, call(ScatterAddInto{{axis, shape}}, indices, g.dy(0)));
  };
}

}  // namespace sort_detail

template <class R>
auto pullback(const Sort<FloatKind>& op, const R& r) {
  return sort_detail::pullback_of_order(op.axis, r);
}
template <class R>
auto pullback(const Topk<FloatKind>& op, const R& r) {
  return sort_detail::pullback_of_order(op.axis, r);
}

}  // namespace planck
