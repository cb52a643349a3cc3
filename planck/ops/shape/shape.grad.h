// Gradients of the ops that see or place elements elsewhere: the elements' gradients, back where
// they came from; where one element is seen many times, the sum.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/reduce/reduce.functions.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck {

template <class R>
auto pullback(const Reshape&, const R& r) {
  return [shape = shape_of<0>(r)](auto& g) { g.give(reshape(g.dy(), shape)); };
}
template <class R>
auto pullback(const Permute& op, const R&) {
  return [op](auto& g) {
    const int rank = op.axes.rank();
    Extents back = op.axes;
    for (int d = 0; d < rank; ++d)
      back[static_cast<int>(op.axes[d] < 0 ? op.axes[d] + rank : op.axes[d])] = d;
    g.give(permute(g.dy(), back));
  };
}
template <class R>
auto pullback(const Expand&, const R& r) {
  return [shape = shape_of<0>(r)](auto& g) { g.give(sum_to(g.dy(), shape)); };
}
template <class R>
auto pullback(const SliceAxis& op, const R& r) {
  return [op, shape = shape_of<0>(r)](auto& g) {
    const auto dy = g.dy();
    const int axis = op.axis < 0 ? op.axis + shape.rank() : op.axis;
    const auto [first, count, step] = op.span(shape[axis]);
    if (step != 1)
      return g.give(slice_assign(full_like(dy, 0, shape), dy, op.axis, op.start, op.stop, op.step));
    Extents before = shape, after = shape;
    for (int d = 0; d < shape.rank(); ++d) before[d] = after[d] = 0;
    before[axis] = first, after[axis] = shape[axis] - first - count;
    g.give(pad(dy, before, after));
  };
}
template <std::size_t N, class R>
auto pullback(const Split<N>& op, const R& r) {
  return [op, shape = shape_of<0>(r)](auto& g) {
    std::vector<Tensor<typename R::InnerBackend>> pieces;
    std::uint32_t known = 0;
    while (!g.has(known)) ++known;
    for (std::uint32_t i = 0; i < N; ++i) {
      Shape piece = shape;
      piece[op.axis < 0 ? op.axis + shape.rank() : op.axis] = op.sizes[i];
      pieces.push_back(g.has(i) ? g.dy(i) : full_like(g.dy(known), 0, piece));
    }
    g.give(cat(pieces, op.axis));
  };
}
template <class R>
auto pullback(const SliceAxes& op, const R& r) {
  return [op, shape = shape_of<0>(r)](auto& g) {
    const auto dy = g.dy();
    g.give(call(SliceAxesAssign{op.slice}, full_like(dy, 0, shape), dy));
  };
}
template <class R>
auto pullback(const SliceAxesAssign& op, const R&) {
  return [op](auto& g) {
    const auto dy = g.dy();
    if (g.needs(1)) g.give(1, call(SliceAxes{op.slice}, dy));
    if (g.needs(0)) g.give(0, call(op, dy, full_like(dy, 0, op.slice.extent)));
  };
}
template <class R>
auto pullback(const Flip& op, const R&) {
  return [op](auto& g) { g.give(call(op, g.dy())); };
}
template <class R>
auto pullback(const Cat& op, const R& r) {
  return [op, shapes = shapes_of(r)](auto& g) {
    const auto dy = g.dy();
    const int axis = op.axis < 0 ? op.axis + dy.rank() : op.axis;
    std::int64_t from = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::int64_t size = shapes[i][axis];
      if (g.needs(i)) g.give(i, slice(dy, axis, from, from + size));
      from += size;
    }
  };
}
template <class R>
auto pullback(const Pad& op, const R&) {
  return [op](auto& g) {
    const auto negated = [](const Extents& widths) {
      Extents out;
      for (std::int64_t w : widths) out.push_back(-w);
      return out;
    };
    g.give(pad(g.dy(), negated(op.before), negated(op.after)));
  };
}
template <class R>
auto pullback(const SliceAssign& op, const R&) {
  return [s = op.slice](auto& g) {
    const auto dy = g.dy();
    if (g.needs(1)) g.give(1, slice(dy, s.axis, s.start, s.stop, s.step));
    if (g.needs(0)) {
      const auto piece = slice(dy, s.axis, s.start, s.stop, s.step);
      g.give(0, slice_assign(dy, zeros_like(piece), s.axis, s.start, s.stop, s.step));
    }
  };
}

}  // namespace planck
