// Attention: softmax(q kᵀ / √d) v, and the module with its four projections.
#pragma once

#include <limits>

#include "planck/nn/linear.h"
#include "planck/ops/softmax/softmax.functions.h"

namespace planck::nn {

// True where position i of a sequence may not look: at j > i.  [length, length]
template <class B>
Tensor<B, BoolKind> causal_mask(std::int64_t length,
                                const typename B::Device& device = B::default_device()) {
  const auto at = arange<B>(length, Dtype::i32, device);
  const Shape square{length, length};
  return gt(expand(reshape(at, {1, length}), square), expand(reshape(at, {length, 1}), square));
}

// q [..., L, d], k [..., S, d], v [..., S, e] → [..., L, e]. Where `hidden` is true a query does
// not see a key; it broadcasts to [..., L, S]. A query that sees nothing gives NaN.
template <class B>
Tensor<B> attention(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                    const std::optional<Tensor<B, BoolKind>>& hidden = std::nullopt) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.extent(-1)));
  auto scores = matmul(q * scale, transpose(k));
  if (hidden)
    scores = mask_fill(scores, expand(*hidden, scores.shape()),
                       Scalar(-std::numeric_limits<double>::infinity()));
  return matmul(softmax(scores, -1), v);
}

struct AttentionOptions {
  std::int64_t width = 0, heads = 1;
  bool bias = true;
};

// x [N, L, width] attends to itself or to another sequence, in heads of width / heads.
template <class B>
struct MultiHeadAttention {
  AttentionOptions options;
  Linear<B> query, key, value, output;

  MultiHeadAttention(Rng& rng, const AttentionOptions& o,
                     const typename B::Device& device = B::default_device());

  Tensor<B> operator()(const Tensor<B>& x,
                       const std::optional<Tensor<B, BoolKind>>& hidden = std::nullopt) const {
    return (*this)(x, x, hidden);
  }
  Tensor<B> operator()(const Tensor<B>& x, const Tensor<B>& seen,
                       const std::optional<Tensor<B, BoolKind>>& hidden) const;
  void visit(auto&& part) {
    part("query", query);
    part("key", key);
    part("value", value);
    part("output", output);
  }

 private:
  static const AttentionOptions& checked(const AttentionOptions& o) {
    if (o.heads < 1 || o.width % o.heads != 0)
      refuse("attention: width {} does not divide into {} heads", {o.width, o.heads});
    return o;
  }
};

template <class B>
MultiHeadAttention<B>::MultiHeadAttention(Rng& rng, const AttentionOptions& o,
                                          const typename B::Device& device)
    : options(checked(o)),
      query(rng, {o.width, o.width, o.bias}, device),
      key(rng, {o.width, o.width, o.bias}, device),
      value(rng, {o.width, o.width, o.bias}, device),
      output(rng, {o.width, o.width, o.bias}, device) {}
template <class B>
auto MultiHeadAttention<B>::operator()(const Tensor<B>& x, const Tensor<B>& seen,
                                       const std::optional<Tensor<B, BoolKind>>& hidden) const
    -> Tensor<B> {
  const auto heads = [&](const Tensor<B>& t) {  // [N, L, width] → [N, heads, L, d]
    return permute(reshape(t, {t.extent(0), t.extent(1), options.heads, -1}), {0, 2, 1, 3});
  };
  const auto y = attention(heads(query(x)), heads(key(seen)), heads(value(seen)), hidden);
  return output(reshape(permute(y, {0, 2, 1, 3}), x.shape()));
}

}  // namespace planck::nn
