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
template <class B>
Tensor<B> with_mask(const Tensor<B>& scores, const Tensor<B>& mask) {
  return scores + mask;
}

// softmax(scale q kᵀ + mask), for as many heads of k as q has: [N, H, L, S]. A query that sees
// nothing has zeros.
template <class B, class... M>
Tensor<B> probabilities(const Tensor<B>& q, const Tensor<B>& k, double scale,
                        const ScaledDotProductOptions& options, const M&... mask) {
  const MatmulOptions how{.math = options.math};
  auto scores = with_mask(matmul(q, transpose(k), how) * scale, mask...);
  if (options.causal)
    scores = mask_fill(
        scores, expand(hidden_by<B>(options, q.extent(2), k.extent(2), q.device()), scores.shape()),
        Scalar(kHidden));
  if constexpr (sizeof...(M) == 0)
    if (!options.causal) return softmax(scores, -1);
  return mask_fill(softmax(scores, -1), eq(scores, full_like(scores, Scalar(kHidden))), 0);
}

template <class B, class... M>
Tensor<B> composed(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                   const ScaledDotProductOptions& options, const M&... mask) {
  const std::int64_t heads = q.extent(1);
  const auto p =
      probabilities(q, of_all_heads(k, heads), scale_of(options, q.extent(3)), options, mask...);
  return matmul(p, of_all_heads(v, heads), MatmulOptions{.math = options.math});
}

template <class B, class... M>
Tensor<B> attend(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                 const ScaledDotProductOptions& options, const M&... mask) {
  const bool wide =
      checked_wide(options, {q.dtype(), q.shape()}, {k.dtype(), k.shape()}, {v.dtype(), v.shape()});
  if constexpr (B::template applies<Attention>)
    if (!wide) return std::get<0>(call(Attention{options}, q, k, v, mask...));
  return composed(q, k, v, options, mask...);
}

}  // namespace attention_detail

// softmax(scale q kᵀ) v: q [N, H, L, D], k [N, G, S, D], v [N, G, S, E] → [N, H, L, E]; G divides
// H. No matrix of scores is made, neither here nor for the gradient, unless D or E is above 256.
// causal: query i sees keys up to i + S − L; a query that sees nothing gives zeros.
template <class B>
Tensor<B> scaled_dot_product_attention(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                                       const ScaledDotProductOptions& options = {}) {
  return attention_detail::attend(q, k, v, options);
}
// The same with a mask that broadcasts to [N, H, L, S]: true hides a key, floats are added to the
// scores. The gradient of a float mask, where it is asked for, is as large as the scores.
template <class B, MaskKind K>
Tensor<B> scaled_dot_product_attention(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                                       const Tensor<B, K>& mask,
                                       const ScaledDotProductOptions& options = {}) {
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    refuse("attention: q has shape {}, k {}, v {}: all need four axes",
           {q.shape(), k.shape(), v.shape()});
  return attention_detail::attend(
      q, k, v, options, expand(mask, {q.extent(0), q.extent(1), q.extent(2), k.extent(2)}));
}

}  // namespace planck
