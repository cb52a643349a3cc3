// The gradient of attention: the fused kernel, or, where derivatives of the gradient are wanted and
// for a mask that is added, the same formulas in ops that have them.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/attention/attention.functions.h"

namespace planck {

namespace attention_detail {

// p and ds of all heads.
template <class B, class... M>
std::pair<Tensor<B>, Tensor<B>> slopes(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                                       const Tensor<B>& dy, const ScaledDotProductOptions& options,
                                       const M&... mask) {
  const auto p = probabilities(q, k, scale_of(options, q.extent(3)), options, mask...);
  const auto dp = matmul(dy, transpose(v), MatmulOptions{.math = options.math});
  return {p, p * (dp - sum(dp * p, -1, true))};
}

// [N, H, S, D] → [N, G, S, D]: what the heads of a group have given.
template <class B>
Tensor<B> of_groups(const Tensor<B>& x, std::int64_t groups) {
  const Shape s = x.shape();
  if (s[1] == groups) return x;
  return sum(reshape(x, {s[0], groups, s[1] / groups, s[2], s[3]}), 2);
}

template <class G, class B, class... M>
void give_composed(G& g, const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                   const Tensor<B>& dy, const ScaledDotProductOptions& options, bool all,
                   const M&... mask) {
  const MatmulOptions how{.math = options.math};
  const std::int64_t heads = q.extent(1), groups = k.extent(1);
  const double scale = scale_of(options, q.extent(3));
  const auto keys = of_all_heads(k, heads);
  const auto [p, ds] = slopes(q, keys, of_all_heads(v, heads), dy, options, mask...);
  if (all && g.needs(0)) g.give(0, matmul(ds, keys, how) * scale);
  if (all && g.needs(1)) g.give(1, of_groups(matmul(transpose(ds), q, how) * scale, groups));
  if (all && g.needs(2)) g.give(2, of_groups(matmul(transpose(p), dy, how), groups));
  if constexpr ((std::same_as<M, Tensor<B>> && ...) && sizeof...(M) == 1)
    if (g.needs(3)) g.give(3, ds);
}

}  // namespace attention_detail

template <class R>
auto pullback(const Attention& op, const R& r) {
  using B = typename R::InnerBackend;
  constexpr bool kMasked = std::tuple_size_v<std::remove_cvref_t<decltype(r.inputs())>> == 4;
  constexpr std::size_t kMask = kMasked ? 3 : 0;
  return [op, q = in<0>(r), k = in<1>(r), v = in<2>(r), mask = in<kMask>(r), y = out(r),
          lse = out<1>(r)](auto& g) {
    if (!g.has(0)) return;  // lse is for this gradient alone
    const auto masked = [&] {
      if constexpr (requires { g[mask]; })
        return g[mask];
      else
        return mask;
    };
    const auto compose = [&](bool all) {
      if constexpr (kMasked)
        attention_detail::give_composed(g, g[q], g[k], g[v], g.dy(), op.options, all, masked());
      else
        attention_detail::give_composed(g, g[q], g[k], g[v], g.dy(), op.options, all);
    };
    if constexpr (AutodiffBackend<B>) {
      compose(true);
    } else {
      const AttentionBackward backward{op.options, op.math};
      const bool any = g.needs(0) || g.needs(1) || g.needs(2);
      const auto give = [&](auto slopes) {
        if (g.needs(0)) g.give(0, std::get<0>(slopes));
        if (g.needs(1)) g.give(1, std::get<1>(slopes));
        if (g.needs(2)) g.give(2, std::get<2>(slopes));
      };
      if constexpr (kMasked) {
        if (any) give(call(backward, g[q], g[k], g[v], masked(), g[y], g[lse], g.dy()));
        if constexpr (requires { g[mask]; })
          if (g.needs(3)) compose(false);
      } else {
        give(call(backward, g[q], g[k], g[v], g[y], g[lse], g.dy()));
      }
    }
  };
}
template <class R>
auto pullback(const AttentionBackward&, const R&) {
  return no_pullback("the fused gradient has no derivative");
}

}  // namespace planck
