// Gradients of quantization: straight through where the value is in range, and a learned scale.
//
// dequantize passes its gradient to the scale alone: integers have none. Zero points are integers.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/quantize/quantize.functions.h"

namespace planck {

template <class R>
auto pullback(const FakeQuantize& op, const R& r) {
  return [op, x = in<0>(r), scale = in<1>(r), zero_point = in<2>(r)](auto& g) {
    if (!g.needs(1)) {
      g.give(0, call(FakeQuantizeBackward<false>{op.scheme}, g.dy(), g[x], g[scale], zero_point));
      return;
    }
    auto [dx, dscale] =
        call(FakeQuantizeBackward<true>{op.scheme}, g.dy(), g[x], g[scale], zero_point);
    if (g.needs(0)) g.give(0, dx);
    g.give(1, reshape(dscale, g[scale].shape()));
  };
}
// Linear in dy; the steps of the mask have slope 0.
template <class R>
auto pullback(const FakeQuantizeBackward<false>& op, const R& r) {
  return [op, x = in<1>(r), scale = in<2>(r), zero_point = in<3>(r)](auto& g) {
    if (g.needs(0)) g.give(0, call(op, g.dy(), g[x], g[scale], zero_point));
    if (g.needs(1)) g.give(1, zeros_like(g[x]));
    if (g.needs(2)) g.give(2, zeros_like(g[scale]));
  };
}
template <class R>
auto pullback(const FakeQuantizeBackward<true>&, const R&) {
  return no_pullback("the gradient of a learned scale has no derivative of its own");
}
template <class R>
auto pullback(const Dequantize& op, const R& r) {  // ds = Σ dy (q − z), over each group
  return [op, q = in<0>(r), scale = in<1>(r), zero_point = in<2>(r)](auto& g) {
    const auto s = g[scale];
    const auto steps = call(op, q, ones_like(s), zero_point);
    g.give(1, reshape(sum_groups(g.dy() * steps, op.scheme), s.shape()));
  };
}
template <class R>
auto pullback(const DynamicQuantize&, const R&) {
  return no_pullback("a scale found from the data is a constant; use fake_quantize to learn one");
}

// The sum over each group of a scheme, in the order of its scales.
template <class B>
Tensor<B> sum_groups(const Tensor<B>& x, const QuantScheme& scheme) {
  switch (scheme.granularity) {
    case Granularity::per_tensor:
      return sum(x);
    case Granularity::per_channel: {
      const int axis = scheme.axis < 0 ? scheme.axis + x.rank() : scheme.axis;
      const unsigned all = (1u << x.rank()) - 1;
      return call(Sum{all & ~(1u << axis)}, x);
    }
    case Granularity::per_token:
      return sum(x, -1);
    default: {
      const auto cut = reshape(x, {-1, scheme.group});
      return sum(cut, -1);
    }
  }
}

}  // namespace planck
