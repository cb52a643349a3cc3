// Gradients of quantization: straight through where the value is in range, and a learned scale.
//
// The gradient of the integers of a quantized tensor is a float tensor of their shape: dequantize
// gives s · dy, and quantize makes dx = dq / s of it, in range. A tracked scale gets Σ dy (q − z)
// from dequantize and −Σ dx x / s from quantize: together what fake_quantize gives it. Zero points
// have no gradient. For 16-bit floats all of this is in f32: what reaches x and the scale is
// rounded once, where it is given to them.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/quantize/quantize.functions.h"

namespace planck {

namespace quantize_detail {
// x in the type it is computed in.
template <class B>
Tensor<B> computed(const Tensor<B>& x) {
  return x.to(compute_dtype(x.dtype()));
}
}  // namespace quantize_detail

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
auto pullback(const Quantize& op, const R& r) {
  return [op, x = in<0>(r), scale = in<1>(r), zero_point = in<2>(r)](auto& g) {
    const auto s = quantize_detail::computed(g[scale]), v = quantize_detail::computed(g[x]);
    const auto dx = call(QuantizeBackward{op.scheme}, g.dy(), v, s, zero_point);
    if (g.needs(0)) g.give(0, dx.to(g[x].dtype()));
    if (!g.needs(1)) return;
    const auto ds = -reshape(sum_groups(dx * v, op.scheme), s.shape()) / s;
    g.give(1, ds.to(g[scale].dtype()));
  };
}
// Linear in dy; the steps of the mask have slope 0. dx = dy / s.
template <class R>
auto pullback(const QuantizeBackward& op, const R& r) {
  return [op, x = in<1>(r), scale = in<2>(r), zero_point = in<3>(r),
          dx = out(r, r.needs(2))](auto& g) {
    if (g.needs(0)) g.give(0, call(op, g.dy(), g[x], g[scale], zero_point));
    if (g.needs(1)) g.give(1, zeros_like(g[x]));
    if (!g.needs(2)) return;
    const auto s = g[scale];
    g.give(2, -reshape(sum_groups(g.dy() * g[dx], op.scheme), s.shape()) / s);
  };
}
template <class R>
auto pullback(const Dequantize& op, const R& r) {  // ds = Σ dy (q − z), over each group
  return [op, q = in<0>(r), scale = in<1>(r), zero_point = in<2>(r)](auto& g) {
    const auto s = quantize_detail::computed(g[scale]), dy = quantize_detail::computed(g.dy());
    if (g.needs(0)) g.give(0, call(DequantizeBackward{op.scheme}, dy, s));
    if (!g.needs(1)) return;
    const auto steps = call(op, q, ones_like(s), zero_point);
    const auto ds = reshape(sum_groups(dy * steps, op.scheme), s.shape());
    g.give(1, ds.to(g[scale].dtype()));
  };
}
// dq = s · dy
template <class R>
auto pullback(const DequantizeBackward& op, const R& r) {
  return [op, dy = in<0>(r, r.needs(1)), scale = in<1>(r)](auto& g) {
    const auto s = g[scale];
    if (g.needs(0)) g.give(0, call(op, g.dy(), s));
    if (g.needs(1)) g.give(1, reshape(sum_groups(g.dy() * g[dy], op.scheme), s.shape()));
  };
}
// Scale and zero point count as constants.
template <class R>
auto pullback(const DynamicQuantize& op, const R& r) {
  return [op, x = in<0>(r), scale = out<1>(r), zero_point = out<2>(r)](auto& g) {
    if (g.has(1))
      refuse(ErrorCode::not_differentiable,
             "{}: a scale found from the data is a constant; use fake_quantize to learn one",
             {g.op()});
    const auto v = quantize_detail::computed(g[x]), s = quantize_detail::computed(g[scale]);
    const auto dx = call(QuantizeBackward{op.scheme}, g.dy(), v, s, zero_point);
    g.give(0, dx.to(g[x].dtype()));
  };
}
template <class R>
auto pullback(const StepsMatmul& op, const R& r) {
  return [op, a = in<0>(r), za = in<1>(r), b = in<2>(r), zb = in<3>(r)](auto& g) {
    const auto steps = [&](const auto& codes, const auto& zero_point, const QuantScheme& scheme) {
      const auto one = full_like(to_float(zero_point, op.dtype), 1);
      return call(Dequantize{scheme}, codes, one, zero_point);
    };
    if (g.needs(0)) g.give(0, sum_to(matmul(g.dy(), transpose(steps(b, zb, op.b))), a.shape()));
    if (g.needs(2)) g.give(2, sum_to(matmul(transpose(steps(a, za, op.a)), g.dy()), b.shape()));
  };
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
