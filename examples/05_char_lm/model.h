// A small transformer that predicts the next byte of a text.
#pragma once

#include "planck/training.h"

template <class B>
struct Block {
  planck::nn::LayerNorm<B> before_attention, before_mlp;
  planck::nn::MultiHeadAttention<B> attention;
  planck::nn::Linear<B> widen, narrow;

  Block(planck::Rng& rng, std::int64_t width)
      : before_attention({width}),
        before_mlp({width}),
        attention(rng, {width, 4}),
        widen(rng, {width, 4 * width}),
        narrow(rng, {4 * width, width}) {}
  planck::Tensor<B> operator()(const planck::Tensor<B>& x,
                               const planck::Tensor<B, planck::BoolKind>& hidden) {
    const auto y = x + attention(before_attention(x), hidden);
    return y + narrow(gelu(widen(before_mlp(y))));
  }
  void visit(auto&& part) {
    part("before_attention", before_attention);
    part("attention", attention);
    part("before_mlp", before_mlp);
    part("widen", widen);
    part("narrow", narrow);
  }
};

template <class B>
struct CharLm {
  std::int64_t length;
  planck::nn::Embedding<B> bytes, places;
  std::vector<Block<B>> blocks;
  planck::nn::LayerNorm<B> last;
  planck::nn::Linear<B> output;

  CharLm(planck::Rng& rng, std::int64_t context, std::int64_t width, int depth)
      : length(context),
        bytes(rng, 256, width),
        places(rng, context, width),
        last({width}),
        output(rng, {width, 256}) {
    for (auto* e : {&bytes, &places}) e->weight.set(e->weight.value() * 0.1);
    for (int i = 0; i < depth; ++i) blocks.emplace_back(rng, width);
  }
  // [N, length] → [N, length, 256]
  planck::Tensor<B> operator()(const planck::Tensor<B, planck::IntKind>& text) {
    const auto hidden = planck::nn::causal_mask<B>(length, text.device());
    auto x = bytes(text) + places(planck::arange<B>(length, planck::Dtype::i64, text.device()));
    for (auto& block : blocks) x = block(x, hidden);
    return output(last(x));
  }
  void visit(auto&& part) {
    part("bytes", bytes);
    part("places", places);
    part("blocks", blocks);
    part("last", last);
    part("output", output);
  }
};
