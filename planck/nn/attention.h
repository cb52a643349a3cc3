// Attention: softmax(q kᵀ / √d) v, and the module with its four projections. Scores are never in
// memory, neither forward nor backward (planck/ops/attention).
#pragma once

#include "planck/nn/linear.h"
#include "planck/ops/attention/attention.functions.h"

namespace planck::nn {

// True where position i of a sequence may not look: at j > i.  [length, length]
template <class B>
Tensor<B, BoolKind> causal_mask(std::int64_t length,
                                const typename B::Device& device = B::default_device()) {
  const auto at = arange<B>(length, Dtype::i32, device);
  const Shape square{length, length};
  return gt(expand(reshape(at, {1, length}), square), expand(reshape(at, {length, 1}), square));
}

// q [..., L, d], k [..., S, d], v [..., S, e] → [..., L, e]; leading axes broadcast. Where `hidden`
// is true a query does not see a key; it broadcasts to [..., L, S]. A query that sees nothing gives
// zeros.
template <class B>
Tensor<B> attention(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                    const std::optional<Tensor<B, BoolKind>>& hidden = std::nullopt) {
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2)
    refuse("attention: q has shape {}, k {}, v {}: all need rank 2 or more",
           {q.shape(), k.shape(), v.shape()});
  const auto leading = [](const auto& t) {
    return Shape(std::span(t.shape().begin(), static_cast<std::size_t>(t.rank() - 2)));
  };
  Shape lead = leading(q);
  for (const auto* t : {&k, &v})
    lead = value_or_throw(broadcast_shape("attention", lead, leading(*t)));
  const auto with = [&](std::int64_t rows, std::int64_t columns) {
    Shape s = lead;
    s.push_back(rows), s.push_back(columns);
    return s;
  };
  const auto heads = [&](const auto& t, std::int64_t rows, std::int64_t columns) {
    const auto wide = expand(t, with(rows, columns));
    return lead.rank() == 2 ? wide : reshape(wide, {numel(lead), 1, rows, columns});
  };
  const auto head_of = [&](const Tensor<B>& t) { return heads(t, t.extent(-2), t.extent(-1)); };
  const auto y = hidden ? scaled_dot_product_attention(head_of(q), head_of(k), head_of(v),
                                                       heads(*hidden, q.extent(-2), k.extent(-2)))
                        : scaled_dot_product_attention(head_of(q), head_of(k), head_of(v));
  return lead.rank() == 2 ? y : reshape(y, with(q.extent(-2), v.extent(-1)));
}

struct AttentionOptions {
  std::int64_t width = 0, heads = 1;
  bool bias = true;
  bool causal = false;  // position i sees positions up to i, without a mask in memory
};

// x [N, L, width] attends to itself or to another sequence, in heads of width / heads.
template <class B>
struct MultiHeadAttention {
  AttentionOptions options;
  Linear<B> query, key, value, output;

  MultiHeadAttention(Rng& rng, const AttentionOptions& o, const Options<B>& at = {});

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
MultiHeadAttention<B>::MultiHeadAttention(Rng& rng, const AttentionOptions& o, const Options<B>& at)
    : options(checked(o)),
      query(rng, {o.width, o.width, o.bias}, at),
      key(rng, {o.width, o.width, o.bias}, at),
      value(rng, {o.width, o.width, o.bias}, at),
      output(rng, {o.width, o.width, o.bias}, at) {}
template <class B>
auto MultiHeadAttention<B>::operator()(const Tensor<B>& x, const Tensor<B>& seen,
                                       const std::optional<Tensor<B, BoolKind>>& hidden) const
    -> Tensor<B> {
  const auto heads = [&](const Tensor<B>& t) {  // [N, L, width] → [N, heads, L, d]
    return permute(reshape(t, {t.extent(0), t.extent(1), options.heads, -1}), {0, 2, 1, 3});
  };
  const auto q = heads(query(x)), k = heads(key(seen)), v = heads(value(seen));
  const ScaledDotProductOptions how{.causal = options.causal};
  const auto y = hidden ? scaled_dot_product_attention(q, k, v, *hidden, how)
                        : scaled_dot_product_attention(q, k, v, how);
  return output(reshape(permute(y, {0, 2, 1, 3}), x.shape()));
}

}  // namespace planck::nn
