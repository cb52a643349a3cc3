// Gradients of softmax, log_softmax and cross_entropy: fused kernels, or, where derivatives of the
// gradient are wanted, the same formulas in ops that have them.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/softmax/softmax.functions.h"

namespace planck {

template <class R>
auto pullback(const Softmax& op, const R& r) {
  using B = typename R::InnerBackend;
  return [op, y = out(r)](auto& g) {
    if constexpr (AutodiffBackend<B>) {
      const auto v = g[y];
      g.give((g.dy() - sum(g.dy() * v, op.axis, true)) * v);
    } else {
      g.give(call(SoftmaxBackward{op.axis}, g[y], g.dy()));
    }
  };
}
template <class R>
auto pullback(const LogSoftmax& op, const R& r) {
  using B = typename R::InnerBackend;
  return [op, y = out(r)](auto& g) {
    if constexpr (AutodiffBackend<B>)
      g.give(g.dy() - exp(g[y]) * sum(g.dy(), op.axis, true));
    else
      g.give(call(LogSoftmaxBackward{op.axis}, g[y], g.dy()));
  };
}
template <class R>
auto pullback(const CrossEntropy& op, const R& r) {
  using B = typename R::InnerBackend;
  return [op, x = in<0>(r), targets = in<1>(r), lse = out<1>(r)](auto& g) {
    if (!g.has(0)) return;  // lse is for this gradient alone
    if constexpr (AutodiffBackend<B>) {
      const auto ignored = eq(targets, full_like(targets, Scalar(op.ignore_index)));
      const auto dloss = reshape(mask_fill(g.dy(), ignored, 0), {g.dy().shape()[0], 1});
      const auto logits = op.wide_loss ? g[x].to(dloss.dtype()) : g[x];
      const auto dx = (softmax(logits, 1) - target_mask(logits, targets)) * dloss;
      g.give(0, op.wide_loss ? dx.to(g[x].dtype()) : dx);
    } else {
      g.give(0, call(CrossEntropyBackward{op}, g[x], targets, g[lse], g.dy()));
    }
  };
}
template <class R>
auto pullback(const SoftmaxBackward&, const R&) {
  return no_pullback("the fused gradient has no derivative");
}
template <class R>
auto pullback(const LogSoftmaxBackward&, const R&) {
  return no_pullback("the fused gradient has no derivative");
}
template <class R>
auto pullback(const CrossEntropyBackward&, const R&) {
  return no_pullback("the fused gradient has no derivative");
}

}  // namespace planck
