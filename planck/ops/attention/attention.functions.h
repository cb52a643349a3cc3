// Attention on tensors. Backends without the kernels, heads that these do not take and derivatives
// of the gradient have the same of simpler ops.
#pragma once

#include <limits>

#include "planck/ops/attention/attention.ops.h"
#include "planck/ops/matmul/matmul.functions.h"
#include "planck/ops/softmax/softmax.functions.h"

namespace planck {

template <class K>
concept MaskKind = std::same_as<K, BoolKind> || std::same_as<K, FloatKind>;

namespace attention_detail {

inline constexpr double kHidden = -std::numeric_limits<double>::infinity();

// Heads of k or v, one for each of q's: [N, G, S, D] → [N, H, S, D]
template <class B>
Tensor<B> of_all_heads(const Tensor<B>& x, std::int64_t heads) {
  const Shape s = x.shape();
  if (s[1] == heads) return x;
  const std::int64_t each = heads / s[1];
  return reshape(expand(reshape(x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], each, s[2], s[3]}),
                 {s[0], heads, s[2], s[3]});
}

// Of one sequence: rows of what has the axes [N, H, L, ...], of [N, G, S, ...], and both.
template <class B, class K>
Tensor<B, K> rows_of(const Tensor<B, K>& x, const Sequence& s) {
  return slice(x, 2, s.first_query, s.end_query);
}
template <class B, class K>
Tensor<B, K> keys_of(const Tensor<B, K>& x, const Sequence& s) {
  return slice(x, 2, s.first_key, s.end_key);
}
template <class B, class K>
Tensor<B, K> scores_within(const Tensor<B, K>& x, const Sequence& s) {
  return slice(rows_of(x, s), 3, s.first_key, s.end_key);
}

// What dropout multiplies probabilities by: 0 or 1 / (1 − dropout), [N, H, L, S].
template <class B>
std::optional<Tensor<B>> kept_of(const ScaledDotProductOptions& o, const Tensor<B>& q,
                                 const Tensor<B>& k) {
  if (o.dropout == 0) return std::nullopt;
  if constexpr (B::template applies<RandomBernoulli>) {
    const Shape shape{q.extent(0), q.extent(1), q.extent(2), k.extent(2)};
    const double keep = 1 - o.dropout;
    return create<B>(RandomBernoulli{{}, keep, 0, q.dtype(), shape, o.seed, o.offset}, q.device()) *
           (1 / keep);
  } else {
    refuse("attention: dropout is {}, and the backend has no random numbers", {o.dropout});
  }
}

// −slope |i + S − L − j| of every head: [H, L, S]
template <class B>
Tensor<B> alibi_of(const Tensor<B>& like, std::int64_t heads, std::int64_t queries,
                   std::int64_t keys) {
  const Dtype compute = compute_dtype(like.dtype());
  const auto number = [&](std::int64_t count, std::int64_t from) {
    return to_float(arange<B>(count, Dtype::i64, like.device()) + from, compute);
  };
  const auto apart = abs(reshape(number(queries, keys - queries), {1, queries, 1}) -
                         reshape(number(keys, 0), {1, 1, keys}));
  const auto slopes = Tensor<B>::from(alibi_slopes(heads, compute), {heads, 1, 1}, like.device());
  return (-(slopes.to(compute) * apart)).to(like.dtype());
}

// Where a query does not see a key, by causal and window: [L, S]
template <class B>
Tensor<B, BoolKind> hidden_by(const ScaledDotProductOptions& options, std::int64_t queries,
                              std::int64_t keys, const typename B::Device& device) {
  const Shape shape{queries, keys};
  const auto j = expand(reshape(arange<B>(keys, Dtype::i64, device), {1, keys}), shape);
  const auto i = expand(
      reshape(arange<B>(queries, Dtype::i64, device) + (keys - queries), {queries, 1}), shape);
  if (options.window == 0) return gt(j, i);
  return logical_or(gt(j, i), le(j, i - options.window));
}

template <class B>
Tensor<B> with_mask(const Tensor<B>& scores) {
  return scores;
}
template <class B>
Tensor<B> with_mask(const Tensor<B>& scores, const Tensor<B, BoolKind>& mask) {
  return mask_fill(scores, mask, Scalar(kHidden));
}
// Filled where the mask hides: a row of nothing else passes no gradient on.
template <class B>
Tensor<B> with_mask(const Tensor<B>& scores, const Tensor<B>& mask) {
  return mask_fill(scores + mask, eq(mask, full_like(mask, Scalar(kHidden))), Scalar(kHidden));
}

// The options, with what products mean: as the device of the tensors says, where it says anything.
template <class B>
ScaledDotProductOptions with_math(ScaledDotProductOptions options, const Tensor<B>& q) {
  if constexpr (requires { q.device().product_math(q.dtype()); })
    options.math = math_of(options, q.device().product_math(q.dtype()), q.dtype());
  return options;
}

// scale q kᵀ, or with a soft cap its tanh, for as many heads of k as q has: [N, H, L, S].
template <class B>
Tensor<B> before_cap(const Tensor<B>& q, const Tensor<B>& k,
                     const ScaledDotProductOptions& options) {
  const auto s = matmul(q, transpose(k), {.math = options.math}) * scale_of(options, q.extent(3));
  return options.soft_cap == 0 ? s : tanh(s / options.soft_cap);
}
// Scores: the same, capped, with what is added, and −Inf where a key is hidden.
template <class B, class... M>
Tensor<B> scores_of(const Tensor<B>& before, const Tensor<B>& q, const Tensor<B>& k,
                    const ScaledDotProductOptions& options, const M&... mask) {
  auto s = options.soft_cap == 0 ? before : before * options.soft_cap;
  if (options.alibi) s = s + alibi_of(q, q.extent(1), q.extent(2), k.extent(2));
  s = with_mask(s, mask...);
  if (!options.causal) return s;
  const auto hidden = hidden_by<B>(options, q.extent(2), k.extent(2), q.device());
  return mask_fill(s, expand(hidden, s.shape()), Scalar(kHidden));
}

// softmax of these; a query that sees nothing has zeros.
template <class B>
Tensor<B> probabilities(const Tensor<B>& scores) {
  return mask_fill(softmax(scores, -1), eq(scores, full_like(scores, Scalar(kHidden))), 0);
}

// y, or y and lse.
template <bool kLse, class B>
using Attended = std::conditional_t<kLse, std::pair<Tensor<B>, Tensor<B>>, Tensor<B>>;

// Of one sequence; kept: what dropout multiplies by.
template <bool kLse, class B, class... M>
Attended<kLse, B> composed_one(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                               const ScaledDotProductOptions& options,
                               const std::optional<Tensor<B>>& kept, const M&... mask) {
  const std::int64_t heads = q.extent(1);
  const auto keys = of_all_heads(k, heads);
  const auto scores = scores_of(before_cap(q, keys, options), q, keys, options, mask...);
  auto p = options.causal || sizeof...(M) > 0 ? probabilities(scores) : softmax(scores, -1);
  if (kept) p = p * *kept;
  auto y = matmul(p, of_all_heads(v, heads), {.math = options.math});
  if constexpr (kLse)
    return {std::move(y), logsumexp(scores.to(compute_dtype(q.dtype())), -1)};
  else
    return y;
}

template <bool kLse = false, class B, class... M>
Attended<kLse, B> composed(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                           const ScaledDotProductOptions& given, const M&... mask) {
  const auto options = of_one(with_math(given, q));
  const auto kept = kept_of(options, q, k);
  const auto one = [&](const Sequence& s) -> Attended<kLse, B> {
    const Shape rows{q.extent(0), q.extent(1), s.end_query - s.first_query};
    if (rows[2] == 0 || s.first_key == s.end_key) {  // nobody sees anything
      auto y = full_like(v, 0, {rows[0], rows[1], rows[2], v.extent(3)});
      if constexpr (kLse)
        return {std::move(y), full_like(q, kHidden, rows).to(compute_dtype(q.dtype()))};
      else
        return y;
    }
    return composed_one<kLse>(rows_of(q, s), keys_of(k, s), keys_of(v, s), options,
                              kept ? std::optional(scores_within(*kept, s)) : std::nullopt,
                              scores_within(mask, s)...);
  };
  if (given.query_offsets.empty()) return composed_one<kLse>(q, k, v, options, kept, mask...);
  std::vector<Tensor<B>> ys, sums;
  for (const Sequence& s : sequences_of(given, q.extent(2), k.extent(2)))
    if constexpr (kLse) {
      auto [y, lse] = one(s);
      ys.push_back(std::move(y)), sums.push_back(std::move(lse));
    } else {
      ys.push_back(one(s));
    }
  if constexpr (kLse)
    return {cat(ys, 2), cat(sums, 2)};
  else
    return cat(ys, 2);
}

template <bool kLse, class B, class... M>
Attended<kLse, B> attend(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                         const ScaledDotProductOptions& options, const M&... mask) {
  const bool wide =
      checked_wide(options, {q.dtype(), q.shape()}, {k.dtype(), k.shape()}, {v.dtype(), v.shape()});
  if constexpr (B::template applies<Attention>)
    if (!wide) {
      auto both = call(Attention{with_math(options, q)}, q, k, v, mask...);
      if constexpr (kLse)
        return {std::get<0>(std::move(both)), std::get<1>(std::move(both))};
      else
        return std::get<0>(std::move(both));
    }
  return composed<kLse>(q, k, v, options, mask...);
}

// The mask of all queries and heads; q, k and v have four axes.
template <class B, class K>
Tensor<B, K> of_scores(const Tensor<B, K>& mask, const Tensor<B>& q, const Tensor<B>& k,
                       const Tensor<B>& v) {
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    refuse("attention: q has shape {}, k {}, v {}: all need four axes",
           {q.shape(), k.shape(), v.shape()});
  return expand(mask, {q.extent(0), q.extent(1), q.extent(2), k.extent(2)});
}

}  // namespace attention_detail

// softmax(scale q kᵀ) v: q [N, H, L, D], k [N, G, S, D], v [N, G, S, E] → [N, H, L, E]; G divides
// H. No matrix of scores is made, neither here nor for the gradient, unless D or E is above 256.
// causal: query i sees keys up to i + S − L; a query that sees nothing gives zeros. Sequences of
// any lengths lie one after the other in L and S, without padding, where query_offsets and
// key_offsets say where each begins. Dropout wants a place in a stream of random numbers:
// {.dropout = 0.1, .seed = rng.seed, .offset = rng.take(1)}.
template <class B>
Tensor<B> scaled_dot_product_attention(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                                       const ScaledDotProductOptions& options = {}) {
  return attention_detail::attend<false>(q, k, v, options);
}
// The same with a mask that broadcasts to [N, H, L, S]: true hides a key, floats are added to the
// scores. The gradient of a float mask, where it is asked for, is as large as the scores.
template <class B, MaskKind K>
Tensor<B> scaled_dot_product_attention(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                                       const Tensor<B, K>& mask,
                                       const ScaledDotProductOptions& options = {}) {
  return attention_detail::attend<false>(q, k, v, options,
                                         attention_detail::of_scores(mask, q, k, v));
}

// Attention and lse [N, H, L], the log of the sum of exp of each query's scores: −Inf where it sees
// nothing; f64 beside f64, else f32. Both have gradients. With them, attention to parts of the keys
// is attention to all: weights of the parts are exp(lse − the logsumexp of their lse).
template <class B>
std::pair<Tensor<B>, Tensor<B>> attention_with_lse(const Tensor<B>& q, const Tensor<B>& k,
                                                   const Tensor<B>& v,
                                                   const ScaledDotProductOptions& options = {}) {
  return attention_detail::attend<true>(q, k, v, options);
}
// The same with a mask.
template <class B, MaskKind K>
std::pair<Tensor<B>, Tensor<B>> attention_with_lse(const Tensor<B>& q, const Tensor<B>& k,
                                                   const Tensor<B>& v, const Tensor<B, K>& mask,
                                                   const ScaledDotProductOptions& options = {}) {
  return attention_detail::attend<true>(q, k, v, options,
                                        attention_detail::of_scores(mask, q, k, v));
}

}  // namespace planck
