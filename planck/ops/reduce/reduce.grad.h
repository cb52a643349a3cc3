// Gradients of reductions.
//
// Conventions: the extreme values of max and min share the gradient in equal parts, those of cummax
// and cummin give it to the last; infinite terms of logsumexp share all of it. Counts are in the
// compute type, and what 16-bit floats pass on is rounded once. prod is exact with any zeros, in
// derivatives of any order: it is made of products of the others, without division.
#pragma once

#include <limits>

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

// x in the type it is computed in: 16-bit floats cannot count.
template <class B>
Tensor<B> computed(const Tensor<B>& x) {
  return x.to(compute_dtype(x.dtype()));
}
// How many of a group are true, as x computes.
template <class B>
Tensor<B> count_of(const Tensor<B, BoolKind>& truths, const Tensor<B>& x, unsigned axes) {
  return call(Sum{axes}, to_float(truths, compute_dtype(x.dtype())));
}

template <class Op, class R>
auto pullback_of_extreme(const Op& op, const R& r) {
  return [op, x = in<0>(r), y = out(r)](auto& g) {
    const auto v = g[x];
    const auto ties = eq(v, expand(g[y], v.shape()));
    const auto shares = (computed(g.dy()) / count_of(ties, v, op.axes)).to(v.dtype());
    g.give(masked(expand(shares, v.shape()), ties));
  };
}

// x: [groups, n], dy: [groups, 1]; each element's dy times the product of the elements beside it.
// Neighbours are multiplied into one, what the pairs get is found in the same way, and each of a
// pair gets it times its partner: 3 n products, none of them undone by a division.
template <class B>
Tensor<B> times_the_others(const Tensor<B>& x, const Tensor<B>& dy) {
  const std::int64_t groups = x.shape()[0], n = x.shape()[1], half = (n + 1) / 2;
  if (n == 1) return dy;
  const auto pairs =
      reshape(n % 2 == 0 ? x : pad(x, Extents{0, 0}, Extents{0, 1}, 1), {groups, half, 2});
  const auto a = select(pairs, 2, 0), b = select(pairs, 2, 1);
  const auto up = times_the_others(a * b, dy);
  const auto both = reshape(stack(std::vector{up * b, up * a}, 2), {groups, 2 * half});
  return n % 2 == 0 ? both : slice(both, 1, 0, n);
}

// The same over any axes; dy has extent 1 along them. 16-bit floats are multiplied in f32 and
// rounded once.
template <class B>
Tensor<B> times_the_others(const Tensor<B>& x, const Tensor<B>& dy, unsigned axes) {
  if (x.numel() == 0) return zeros_like(x);
  if (const Dtype compute = compute_dtype(x.dtype()); compute != x.dtype())
    return to_float(times_the_others(to_float(x, compute), to_float(dy, compute), axes), x.dtype());
  Extents order, back;  // kept axes, then reduced ones
  for (const unsigned wanted : {0u, 1u})
    for (int d = 0; d < x.rank(); ++d)
      if ((axes >> d & 1u) == wanted) order.push_back(d);
  back = order;
  for (int d = 0; d < x.rank(); ++d) back[static_cast<int>(order[d])] = d;
  const auto sorted = permute(x, order);
  const std::int64_t n = reduced(x.shape(), axes), groups = x.numel() / n;
  const auto others = times_the_others(reshape(sorted, {groups, n}), reshape(dy, {groups, 1}));
  return permute(reshape(others, sorted.shape()), back);
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
    g.give(reduce_detail::times_the_others(v, g.dy(), op.axes));
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
    const auto given = g[x];
    const auto v = reduce_detail::computed(given);
    const auto n = reduce_detail::reduced(v.shape(), op.axes);
    const auto scaled =
        reduce_detail::computed(g.dy()) * 2 / static_cast<double>(n - op.correction);
    const auto centre = expand(call(Mean{op.axes}, v), v.shape());
    g.give((expand(scaled, v.shape()) * (v - centre)).to(given.dtype()));
  };
}
template <class R>
auto pullback(const LogSumExp& op, const R& r) {  // exp(x − y); of +Inf in equal parts
  return [op, x = in<0>(r), y = out(r)](auto& g) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto v = g[x];
    const auto w = g[y];
    const auto shift = expand(mask_fill(w, eq(w, -kInfinity), 0), v.shape());
    const auto peaks = eq(v, kInfinity);
    const auto parts = (1 / reduce_detail::count_of(peaks, v, op.axes)).to(v.dtype());
    const auto shares = expand(where(eq(w, w), parts, w), v.shape());  // NaN beside +Inf stays
    const auto terms = exp(mask_fill(v - shift, peaks, 0));
    g.give(expand(g.dy(), v.shape()) * where(peaks, shares, terms));
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
