// Gradients of reductions.
//
// Conventions: the extreme values of max and min share the gradient in equal parts, those of cummax
// and cummin give it to the first. prod is exact with zeros: no division by zero, one zero among
// the factors gets the product of the others.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/elementwise/elementwise.functions.h"
#include "planck/ops/index/index.grad.h"
#include "planck/ops/reduce/reduce.functions.h"

namespace planck {

namespace reduce_detail {

// Elements that become one.
inline std::int64_t reduced(const Shape& x, unsigned axes) {
  std::int64_t n = 1;
  for (int d = 0; d < x.rank(); ++d)
    if (axes >> d & 1u) n *= x[d];
  return n;
}

template <class Op, class R>
auto pullback_of_extreme(const Op& op, const R& r) {
  return [op, x = in<0>(r), y = out(r)](auto& g) {
    const auto v = g[x];
    const auto ties = eq(v, expand(g[y], v.shape()));
    const auto shares = g.dy() / call(Sum{op.axes}, to_float(ties, v.dtype()));
    g.give(masked(expand(shares, v.shape()), ties));
  };
}

}  // namespace reduce_detail

template <class R>
auto pullback(const Sum&, const R& r) {
  return [shape = shape_of<0>(r)](auto& g) { g.give(expand(g.dy(), shape)); };
}
template <class R>
auto pullback(const Mean& op, const R& r) {
  return [op, shape = shape_of<0>(r)](auto& g) {
    g.give(expand(g.dy() / reduce_detail::reduced(shape, op.axes), shape));
  };
}
template <class R>
auto pullback(const Prod& op, const R& r) {
  return [op, x = in<0>(r)](auto& g) {
    const auto v = g[x];
    const auto zero = eq(v, zeros_like(v));
    const auto others = mask_fill(v, zero, 1);
    // The product of all factors that are not zero, once for each element.
    const auto rest = expand(call(Prod{op.axes}, others), v.shape());
    const auto zeros = expand(call(Sum{op.axes}, to_float(zero, v.dtype())), v.shape());
    const auto none = eq(zeros, zeros_like(zeros)), one = eq(zeros, ones_like(zeros));
    const auto wanted = where(zero, one, none);
    g.give(expand(g.dy(), v.shape()) * masked(rest / others, wanted));
  };
}
template <class R>
auto pullback(const Max& op, const R& r) {
  return reduce_detail::pullback_of_extreme(op, r);
}
template <class R>
auto pullback(const Min& op, const R& r) {
  return reduce_detail::pullback_of_extreme(op, r);
}
template <class R>
auto pullback(const Var& op, const R& r) {  // 2 (x − mean) / (n − correction)
  return [op, x = in<0>(r)](auto& g) {
    const auto v = g[x];
    const auto n = reduce_detail::reduced(v.shape(), op.axes);
    const auto scaled = g.dy() * 2 / static_cast<double>(n - op.correction);
    const auto centre = expand(call(Mean{op.axes}, v), v.shape());
    g.give(expand(scaled, v.shape()) * (v - centre));
  };
}
template <class R>
auto pullback(const LogSumExp&, const R& r) {  // exp(x − y)
  return [x = in<0>(r), y = out(r)](auto& g) {
    const auto v = g[x];
    const auto w = g[y];
    const auto infinite = eq(abs(w), full_like(w, std::numeric_limits<double>::infinity()));
    const auto shift = expand(mask_fill(w, infinite, 0), v.shape());
    g.give(expand(g.dy(), v.shape()) * exp(v - shift));
  };
}
template <class R>
auto pullback(const Cumsum& op, const R&) {
  return [op](auto& g) { g.give(cumsum(g.dy(), op.axis, !op.reverse)); };
}
// Each goes back to where its value came from.
template <OpName N, ReduceKind Kind, class R>
auto pullback(const RunningExtremeOp<N, Kind, FloatKind>& op, const R& r) {
  return [axis = op.axis, shape = shape_of<0>(r), indices = out<1>(r)](auto& g) {
    g.give(0, call(ScatterAddInto{{axis, shape}}, indices, g.dy(0)));
  };
}

}  // namespace planck
