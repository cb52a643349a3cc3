// Gradients of indexing: what was read gets the sum of what it was read for, what was written
// passes on what became of it.
//
// Convention: of several items that scatter writes to one element, the last gets its gradient.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/elementwise/elementwise.grad.h"
#include "planck/ops/index/index.functions.h"
#include "planck/ops/index/indexing.functions.h"

namespace planck {

namespace index_detail {

template <class Op, class... T>
auto first_of(const Op& op, const T&... tensors) {
  return std::get<0>(call(op, tensors...));
}

// Positions along an axis, as integers of a shape.
template <class B>
Tensor<B, IntKind> positions(const Tensor<B, IntKind>& index, int axis) {
  Shape line = Extents::filled(index.rank(), 1);
  line[axis] = index.shape()[axis];
  const auto ascending = arange<B>(index.shape()[axis], Dtype::i64, index.device());
  return expand(reshape(ascending, line), index.shape());
}

}  // namespace index_detail

template <class R>
auto pullback(const Gather<FloatKind>& op, const R& r) {
  return [axis = op.axis, shape = shape_of<0>(r), index = in<1>(r)](auto& g) {
    g.give(0, call(ScatterAddInto{{axis, shape}}, index, g.dy()));
  };
}
template <class R>
auto pullback(const IndexSelect<FloatKind>& op, const R& r) {
  return [axis = op.axis, shape = shape_of<0>(r), index = in<1>(r)](auto& g) {
    g.give(0, call(IndexAddInto{{axis, shape}}, index, g.dy()));
  };
}
template <class R>
auto pullback(const ScatterAddInto& op, const R& r) {
  return [axis = op.axis, index = in<0>(r)](auto& g) {
    g.give(1, index_detail::first_of(Gather<FloatKind>{{axis}}, g.dy(), index));
  };
}
template <class R>
auto pullback(const IndexAddInto& op, const R& r) {
  return [axis = op.axis, index = in<0>(r)](auto& g) {
    g.give(1, index_detail::first_of(IndexSelect<FloatKind>{{axis}}, g.dy(), index));
  };
}
template <class R>
auto pullback(const ScatterAdd<FloatKind>& op, const R& r) {
  return [axis = op.axis, index = in<1>(r)](auto& g) {
    if (g.needs(0)) g.give(0, g.dy());
    if (g.needs(2)) g.give(2, index_detail::first_of(Gather<FloatKind>{{axis}}, g.dy(), index));
  };
}
template <class R>
auto pullback(const IndexAdd<FloatKind>& op, const R& r) {
  return [axis = op.axis, index = in<1>(r)](auto& g) {
    if (g.needs(0)) g.give(0, g.dy());
    if (g.needs(2))
      g.give(2, index_detail::first_of(IndexSelect<FloatKind>{{axis}}, g.dy(), index));
  };
}
template <class R>
auto pullback(const Scatter<FloatKind>& op, const R& r) {
  return [axis = op.axis, index = in<1>(r)](auto& g) {
    const auto dy = g.dy();
    if (g.needs(0)) {
      const auto zeros = full_like(dy, 0, index.shape());
      g.give(0, index_detail::first_of(Scatter<FloatKind>{{axis}}, dy, index, zeros));
    }
    if (!g.needs(2)) return;
    const auto mine = index_detail::positions(index, axis);
    const auto none = full_like(mine, -1, dy.shape());
    const auto last = index_detail::first_of(Scatter<IntKind>{{axis}}, none, index, mine);
    const auto stays = eq(index_detail::first_of(Gather<IntKind>{{axis}}, last, index), mine);
    g.give(2, masked(index_detail::first_of(Gather<FloatKind>{{axis}}, dy, index), stays));
  };
}
template <class R>
auto pullback(const MaskSelect<FloatKind>&, const R& r) {
  return [mask = in<1>(r)](auto& g) { g.give(0, call(MaskScatterInto{}, mask, g.dy())); };
}
template <class R>
auto pullback(const MaskScatterInto&, const R& r) {
  return [mask = in<0>(r)](auto& g) {
    g.give(1, index_detail::first_of(MaskSelect<FloatKind>{}, g.dy(), mask));
  };
}
template <class R>
auto pullback(const MaskScatter<FloatKind>&, const R& r) {
  return [mask = in<1>(r)](auto& g) {
    if (g.needs(0)) g.give(0, mask_fill(g.dy(), mask, 0));
    if (g.needs(2)) g.give(2, index_detail::first_of(MaskSelect<FloatKind>{}, g.dy(), mask));
  };
}
template <class R>
auto pullback(const OneHot<FloatKind>&, const R&) {
  return no_pullback("its input are integers");
}

}  // namespace planck
