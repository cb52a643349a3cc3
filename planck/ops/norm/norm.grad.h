// Gradients of layer_norm and rms_norm: fused kernels, or, where derivatives of the gradient are
// wanted, the same formulas in ops that have them.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/norm/norm.functions.h"

namespace planck {

namespace norm_detail {

template <bool Centered, class G, class T>
void give_composed(G& g, const T& x, const std::optional<T>& weight, bool biased, int axes,
                   double eps) {
  const unsigned along = trailing(x.rank(), axes);
  const auto row_mean = [&](const T& t) { return call(Mean{along}, t); };
  T centered = x;
  if constexpr (Centered) centered = x - row_mean(x);
  const T rstd = inverse_deviation(centered, along, eps);
  const T xhat = centered * rstd, dy = g.dy();
  const T scaled = weight ? dy * *weight : dy;
  if (g.needs(0)) {
    T dx = scaled - xhat * row_mean(scaled * xhat);
    if constexpr (Centered) dx = dx - row_mean(scaled);
    g.give(0, dx * rstd);
  }
  if (weight && g.needs(1)) g.give(1, sum_to(dy * xhat, weight->shape()));
  const std::size_t bias = weight ? 2 : 1;
  if (biased && g.needs(bias)) {
    Shape shape;
    for (int d = x.rank() - axes; d < x.rank(); ++d) shape.push_back(x.shape()[d]);
    g.give(bias, sum_to(dy, shape));
  }
}

}  // namespace norm_detail

template <bool Centered, bool Weighted, bool Biased, class R>
auto pullback(const Norm<Centered, Weighted, Biased>& op, const R& r) {
  using B = typename R::InnerBackend;
  const auto weight = [&] {
    if constexpr (Weighted)
      return in<1>(r);
    else
      return Saved<B>();
  };
  constexpr std::size_t kRstd = Centered ? 2 : 1;
  return [op, x = in<0>(r), w = weight(), mean = out<1>(r), rstd = out<kRstd>(r)](auto& g) {
    if (!g.has(0)) return;  // mean and rstd are for this gradient alone
    if constexpr (AutodiffBackend<B>) {
      std::optional<Tensor<B>> weight_value;
      if constexpr (Weighted) weight_value = g[w];
      norm_detail::give_composed<Centered>(g, g[x], weight_value, Biased, op.axes, op.eps);
    } else {
      const NormBackward<Centered, Weighted, Biased> backward{op};
      const auto found = [&] {
        if constexpr (Centered && Weighted)
          return call(backward, g[x], g.dy(), g[mean], g[rstd], g[w]);
        else if constexpr (Centered)
          return call(backward, g[x], g.dy(), g[mean], g[rstd]);
        else if constexpr (Weighted)
          return call(backward, g[x], g.dy(), g[rstd], g[w]);
        else
          return call(backward, g[x], g.dy(), g[rstd]);
      }();
      std::size_t input = 0;
      std::apply([&](const auto&... d) { (g.give(input++, d), ...); }, found);
    }
  };
}
template <bool Centered, bool Weighted, bool Biased, class R>
auto pullback(const NormBackward<Centered, Weighted, Biased>&, const R&) {
  return no_pullback("the fused gradient has no derivative");
}

}  // namespace planck
