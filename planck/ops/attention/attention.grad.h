// The gradient of attention: the fused kernel, or, where derivatives of the gradient are wanted and
// for a mask that is added, the same formulas in ops that have them.
//
// A gradient dlse that reaches lse is one more term of the slopes, ds = p * (dp − delta + dlse).
// The kernel takes it as columns of its own: dy has dlse there, y −1 and v 0, so that delta is less
// by dlse and dp is what it was.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/attention/attention.functions.h"

namespace planck {

namespace attention_detail {

// Of all heads: p as it multiplies v, the slopes of scores, and these before the cap.
template <class B>
struct Slopes {
  Tensor<B> p, of_scores, ds;
};
// dlse: of [N, H, L], or none; kept: what dropout multiplies by.
template <class B, class... M>
Slopes<B> slopes(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v, const Tensor<B>& dy,
                 const std::optional<Tensor<B>>& dlse, const ScaledDotProductOptions& options,
                 const std::optional<Tensor<B>>& kept, const M&... mask) {
  const auto before = before_cap(q, k, options);
  const auto p = probabilities(scores_of(before, q, k, options, mask...));
  auto dp = matmul(dy, transpose(v), {.math = options.math});
  if (kept) dp = dp * *kept;
  auto delta = sum(dp * p, -1, true);
  if (dlse) delta = delta - unsqueeze(dlse->to(q.dtype()), -1);
  const auto ds = p * (dp - delta);
  return {kept ? p * *kept : p, ds, options.soft_cap == 0 ? ds : ds * (1 - before * before)};
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
                   const Tensor<B>& dy, const std::optional<Tensor<B>>& dlse,
                   const ScaledDotProductOptions& given, bool all, const M&... mask) {
  const auto options = of_one(with_math(given, q));
  const MatmulOptions how{.math = options.math};
  const std::int64_t heads = q.extent(1), groups = k.extent(1), columns = k.extent(2);
  const double scale = scale_of(options, q.extent(3));
  constexpr bool kAdded = (std::same_as<M, Tensor<B>> && ...) && sizeof...(M) == 1;
  bool needs[4] = {all && g.needs(0), all && g.needs(1), all && g.needs(2), false};
  if constexpr (kAdded) needs[3] = g.needs(3);
  std::vector<Tensor<B>> parts[4];
  const auto kept = kept_of(options, q, k);
  const auto add = [&](const Tensor<B>& rows, const Tensor<B>& k_of, const Tensor<B>& v_of,
                       const Tensor<B>& dy_of, const std::optional<Tensor<B>>& dlse_of,
                       const std::optional<Tensor<B>>& kept_in, const Sequence* s,
                       const auto&... m) {
    if (s != nullptr && (rows.extent(2) == 0 || k_of.extent(2) == 0)) {
      if (needs[0]) parts[0].push_back(zeros_like(rows));
      if (needs[1]) parts[1].push_back(zeros_like(k_of));
      if (needs[2]) parts[2].push_back(zeros_like(v_of));
      if (needs[3])
        parts[3].push_back(full_like(q, 0, {q.extent(0), heads, rows.extent(2), columns}));
      return;
    }
    const auto keys = of_all_heads(k_of, heads);
    const auto found =
        slopes(rows, keys, of_all_heads(v_of, heads), dy_of, dlse_of, options, kept_in, m...);
    if (needs[0]) parts[0].push_back(matmul(found.ds, keys, how) * scale);
    if (needs[1])
      parts[1].push_back(of_groups(matmul(transpose(found.ds), rows, how) * scale, groups));
    if (needs[2]) parts[2].push_back(of_groups(matmul(transpose(found.p), dy_of, how), groups));
    if (needs[3])
      parts[3].push_back(s == nullptr ? found.of_scores
                                      : pad(found.of_scores, {0, 0, 0, s->first_key},
                                            {0, 0, 0, columns - s->end_key}));
  };
  if (given.query_offsets.empty())
    add(q, k, v, dy, dlse, kept, nullptr, mask...);
  else
    for (const Sequence& s : sequences_of(given, q.extent(2), columns))
      add(rows_of(q, s), keys_of(k, s), keys_of(v, s), rows_of(dy, s),
          dlse ? std::optional(rows_of(*dlse, s)) : std::nullopt,
          kept ? std::optional(scores_within(*kept, s)) : std::nullopt, &s,
          scores_within(mask, s)...);
  for (std::size_t i = 0; i < 4; ++i)
    if (needs[i] && !parts[i].empty())
      g.give(i, parts[i].size() == 1 ? parts[i][0] : cat(parts[i], 2));
}

// dlse [N, H, L] as columns whose sum it is: one of its own dtype, or three of a 16-bit dtype, for
// all of its 24 bits.
template <class B>
Tensor<B> columns_of(const Tensor<B>& dlse, Dtype dtype) {
  auto rest = unsqueeze(dlse, -1);
  if (dlse.dtype() == dtype) return rest;
  std::vector<Tensor<B>> columns;
  while (columns.size() < 3) {
    columns.push_back(rest.to(dtype));
    rest = rest - columns.back().to(dlse.dtype());
  }
  return cat(columns, 3);
}
// x with columns of one value, as many as `columns` has.
template <class B>
Tensor<B> and_columns(const Tensor<B>& x, double value, const Tensor<B>& columns) {
  const Shape s = x.shape();
  return cat(std::vector{x, full_like(x, value, {s[0], s[1], s[2], columns.extent(3)})}, 3);
}

// dq, dk, dv by the kernel; without a value where heads with the columns of dlse are too wide.
template <class B, class... M>
auto fused(const AttentionBackward& op, const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
           const Tensor<B>& y, const Tensor<B>& lse, const Tensor<B>& dy,
           const std::optional<Tensor<B>>& dlse, const M&... mask) {
  if (!dlse) return std::optional(call(op, q, k, v, mask..., y, lse, dy));
  const auto more = columns_of(*dlse, dy.dtype());
  const std::int64_t width = v.extent(3);
  std::optional<Called<B, AttentionBackward, FloatKind>> found;
  if (width + more.extent(3) > kMostHeadWidth) return found;
  found = call(op, q, k, and_columns(v, 0, more), mask..., and_columns(y, -1, more), lse,
               cat(std::vector{dy, more}, 3));
  std::get<2>(*found) = slice(std::get<2>(*found), 3, 0, width);
  return found;
}

}  // namespace attention_detail

template <class R>
auto pullback(const Attention& op, const R& r) {
  using B = typename R::InnerBackend;
  constexpr bool kMasked = std::tuple_size_v<std::remove_cvref_t<decltype(r.inputs())>> == 4;
  constexpr std::size_t kMask = kMasked ? 3 : 0;
  return [op, q = in<0>(r), k = in<1>(r), v = in<2>(r), mask = in<kMask>(r), y = out(r),
          lse = out<1>(r)](auto& g) {
    const Tensor<B> dy = g.has(0) ? g.dy() : zeros_like(g[y]);
    const auto dlse = g.has(1) ? std::optional(g.dy(1)) : std::nullopt;
    const auto with_mask = [&](const auto& f) {
      if constexpr (!kMasked)
        return f();
      else if constexpr (requires { g[mask]; })
        return f(g[mask]);
      else
        return f(mask);
    };
    const auto compose = [&](bool all) {
      with_mask([&](const auto&... m) {
        attention_detail::give_composed(g, g[q], g[k], g[v], dy, dlse, op.options, all, m...);
      });
    };
    if constexpr (AutodiffBackend<B>) {
      compose(true);
    } else {
      if (g.needs(0) || g.needs(1) || g.needs(2)) {
        const auto slopes = with_mask([&](const auto&... m) {
          return attention_detail::fused(AttentionBackward{op.options, op.math}, g[q], g[k], g[v],
                                         g[y], g[lse], dy, dlse, m...);
        });
        if (!slopes) return compose(true);
        if (g.needs(0)) g.give(0, std::get<0>(*slopes));
        if (g.needs(1)) g.give(1, std::get<1>(*slopes));
        if (g.needs(2)) g.give(2, std::get<2>(*slopes));
      }
      if constexpr (kMasked && requires { g[mask]; })
        if (g.needs(3)) compose(false);
    }
  };
}
template <class R>
auto pullback(const AttentionBackward&, const R&) {
  return no_pullback("the fused gradient has no derivative");
}

}  // namespace planck
