// Attention: softmax(q kᵀ / √d) v, and the module with its four projections. Scores are never in
// memory, neither forward nor backward (planck/ops/attention).
#pragma once

#include "planck/math/philox.h"
#include "planck/nn/key_value_cache.h"
#include "planck/nn/layers.h"
#include "planck/nn/linear.h"
#include "planck/nn/rope.h"
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
  bool causal = false;               // position i sees positions up to i, without a mask in memory
  std::int64_t kv_heads = 0;         // of keys and values, each for a group of heads; 0: heads
  std::int64_t window = 0;           // of what causal leaves, the last so many; 0: all
  std::optional<double> scale = {};  // of the scores; none: 1 / √(width / heads)
  std::optional<RopeOptions> rope = {};  // turns queries and keys by their places
  double soft_cap = 0;  // scores become soft_cap tanh(score / soft_cap); 0: as they are
  bool alibi = false;   // scores fall with the distance, by a slope for each head
  double dropout = 0;   // of probabilities, in training; the state has its generator
};

// x [N, L, width] attends to itself or to another sequence, in heads of width / heads. With a
// cache, which needs causal, x are the tokens that follow those in it.
template <class B>
struct MultiHeadAttention {
  AttentionOptions options;
  Linear<B> query, key, value, output;
  mutable std::optional<Dropout> drops;  // the generator moves on when it is asked

  MultiHeadAttention(Rng& rng, const AttentionOptions& o, const Options<B>& at = {});

  Tensor<B> operator()(const Tensor<B>& x,
                       const std::optional<Tensor<B, BoolKind>>& hidden = std::nullopt) const {
    return (*this)(x, x, hidden);
  }
  Tensor<B> operator()(const Tensor<B>& x, const Tensor<B>& seen,
                       const std::optional<Tensor<B, BoolKind>>& hidden) const;
  Tensor<B> operator()(const Tensor<B>& x, KeyValueCache<B>& cache) const;
  void visit(auto&& part) {
    part("query", query);
    part("key", key);
    part("value", value);
    part("output", output);
    part("dropout", drops);
  }

  std::int64_t head_width() const { return options.width / options.heads; }

 private:
  static const AttentionOptions& checked(const AttentionOptions& o);
  static LinearOptions of_keys(const AttentionOptions& o) {
    return {o.width, o.width / o.heads * (o.kv_heads == 0 ? o.heads : o.kv_heads), o.bias};
  }
  // Where it fails, nothing is drawn.
  Tensor<B> attend(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                   const auto&... hidden) const;
  // [N, L, heads · d] → [N, heads, L, d], and back
  Tensor<B> in_heads(const Tensor<B>& t) const {
    const std::int64_t heads = t.extent(2) / head_width();
    return permute(reshape(t, {t.extent(0), t.extent(1), heads, head_width()}), {0, 2, 1, 3});
  }
  Tensor<B> of_heads(const Tensor<B>& y) const {
    return output(reshape(permute(y, {0, 2, 1, 3}), {y.extent(0), y.extent(2), options.width}));
  }
  // Queries and keys of places `first` and on, turned where that is asked for.
  std::pair<Tensor<B>, Tensor<B>> placed(const Tensor<B>& x, const Tensor<B>& seen,
                                         std::int64_t first) const;
};

template <class B>
const AttentionOptions& MultiHeadAttention<B>::checked(const AttentionOptions& o) {
  if (o.heads < 1 || o.width % o.heads != 0)
    refuse("attention: width {} does not divide into {} heads", {o.width, o.heads});
  if (o.kv_heads < 0 || (o.kv_heads > 0 && o.heads % o.kv_heads != 0))
    refuse("attention: {} heads do not divide into {} of keys and values", {o.heads, o.kv_heads});
  if (o.window < 0) refuse("attention: window is {}, must be at least 0", {o.window});
  if (o.window > 0 && !o.causal) refuse("attention: window is {}, which needs causal", {o.window});
  if (o.soft_cap < 0) refuse("attention: soft_cap is {}, must be at least 0", {o.soft_cap});
  if (o.rope) (void)rope_detail::columns_of(*o.rope, o.width / o.heads);
  return o;
}
template <class B>
MultiHeadAttention<B>::MultiHeadAttention(Rng& rng, const AttentionOptions& o, const Options<B>& at)
    : options(checked(o)),
      query(rng, {o.width, o.width, o.bias}, at),
      key(rng, of_keys(o), at),
      value(rng, of_keys(o), at),
      output(rng, {o.width, o.width, o.bias}, at) {
  if (o.dropout == 0) return;
  const Philox4 words = PhiloxStream{rng.seed, rng.take(1)}.words(0);
  drops.emplace(o.dropout, static_cast<std::uint64_t>(words.v[1]) << 32 | words.v[0]);
}
template <class B>
auto MultiHeadAttention<B>::attend(const Tensor<B>& q, const Tensor<B>& k, const Tensor<B>& v,
                                   const auto&... hidden) const -> Tensor<B> {
  ScaledDotProductOptions how{.scale = options.scale,
                              .causal = options.causal,
                              .window = options.window,
                              .soft_cap = options.soft_cap,
                              .alibi = options.alibi};
  if (!drops || !drops->mode.training || drops->probability == 0)
    return scaled_dot_product_attention(q, k, v, hidden..., how);
  const Rng before = drops->rng;
  how.dropout = drops->probability;
  how.seed = before.seed;
  how.offset = drops->rng.take(q.extent(0) * q.extent(1) * q.extent(2) * k.extent(2));
  try {
    return scaled_dot_product_attention(q, k, v, hidden..., how);
  } catch (...) {
    drops->rng = before;
    throw;
  }
}
template <class B>
auto MultiHeadAttention<B>::placed(const Tensor<B>& x, const Tensor<B>& seen,
                                   std::int64_t first) const -> std::pair<Tensor<B>, Tensor<B>> {
  const auto q = in_heads(query(x)), k = in_heads(key(seen));
  if (!options.rope) return {q, k};
  if (q.extent(2) != k.extent(2))
    refuse("attention: {} queries and {} keys; rope takes as many of both",
           {q.extent(2), k.extent(2)});
  const auto by =
      rope_detail::turns<B>(*options.rope, rope_detail::columns_of(*options.rope, head_width()),
                            first, q.extent(2), q.dtype(), q.device());
  return {rope_detail::turned(q, by, options.rope->pairs),
          rope_detail::turned(k, by, options.rope->pairs)};
}
template <class B>
auto MultiHeadAttention<B>::operator()(const Tensor<B>& x, const Tensor<B>& seen,
                                       const std::optional<Tensor<B, BoolKind>>& hidden) const
    -> Tensor<B> {
  const auto [q, k] = placed(x, seen, 0);
  const auto v = in_heads(value(seen));
  return of_heads(hidden ? attend(q, k, v, *hidden) : attend(q, k, v));
}
template <class B>
auto MultiHeadAttention<B>::operator()(const Tensor<B>& x, KeyValueCache<B>& cache) const
    -> Tensor<B> {
  if (!options.causal)
    refuse("attention: {} tokens are in a cache, which needs causal", {cache.tokens()});
  const auto [q, k] = placed(x, x, cache.tokens());
  cache.append(k, in_heads(value(x)));
  const auto y = of_heads(attend(q, cache.keys(), cache.values()));
  if (options.window > 0) cache.keep(options.window);
  return y;
}

}  // namespace planck::nn
