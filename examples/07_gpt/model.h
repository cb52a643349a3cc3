// A GPT: tokens and places, blocks of causal attention and a perceptron, logits by the token table
// itself. Trains on whole sequences; goes on one token at a time beside a cache of keys and values.
#pragma once

#include <cmath>
#include <functional>

#include "planck/training.h"

namespace gpt {

using namespace planck;

struct Size {
  std::int64_t vocabulary, width, heads, blocks;
};
inline constexpr std::pair<std::string_view, Size> kPresets[] = {
    {"tiny", {96, 128, 4, 4}}, {"10m", {512, 320, 5, 8}}, {"124m", {50304, 768, 12, 12}}};

// Keys and values of the tokens so far, of every block.
template <class B>
using Cache = std::vector<nn::KeyValueCache<B>>;

template <class B>
struct Block {
  std::int64_t heads;
  nn::LayerNorm<B> before_attention, before_mlp;
  nn::Linear<B> qkv, project, widen, narrow;

  Block(Rng& rng, const Size& size, const nn::Options<B>& at)
      : heads(size.heads),
        before_attention({size.width}, at),
        before_mlp({size.width}, at),
        qkv(rng, {size.width, 3 * size.width}, at),
        project(rng, {size.width, size.width}, at),
        widen(rng, {size.width, 4 * size.width}, at),
        narrow(rng, {4 * size.width, size.width}, at) {
    // What is added to the stream of 2 blocks branches starts so much smaller.
    const double share = 1 / std::sqrt(2.0 * static_cast<double>(size.blocks));
    for (auto* out : {&project, &narrow}) out->weight.set(out->weight.value() * share);
  }

  // x [N, L, width]; with a cache, x are the tokens that follow those in it.
  Tensor<B> operator()(const Tensor<B>& x, nn::KeyValueCache<B>* cache = nullptr) const {
    const std::int64_t n = x.extent(0), length = x.extent(1), width = x.extent(2);
    const auto three = split(qkv(before_attention(x)), {width, width, width}, 2);
    const auto part = [&](std::size_t i) {  // [N, heads, L, d]
      return permute(reshape(three[i], {n, length, heads, -1}), {0, 2, 1, 3});
    };
    auto k = part(1), v = part(2);
    if (cache != nullptr) {
      cache->append(k, v);
      k = cache->keys(), v = cache->values();
    }
    const auto seen = scaled_dot_product_attention(part(0), k, v, {.causal = true});
    const auto y = project(reshape(permute(seen, {0, 2, 1, 3}), {n, length, width}), x);
    return narrow(widen(before_mlp(y), Activation::gelu), y);
  }
  void visit(auto&& part) {
    part("before_attention", before_attention);
    part("qkv", qkv);
    part("project", project);
    part("before_mlp", before_mlp);
    part("widen", widen);
    part("narrow", narrow);
  }
};

// B is an Autodiff<...>.
template <class B>
struct Gpt {
  Size size;
  nn::Embedding<B> tokens, places;
  std::vector<Block<B>> blocks;
  nn::LayerNorm<B> last;
  bool recompute = false;  // blocks keep nothing for the backward pass: less memory, the same bits

  // Of sequences of up to `context` tokens.
  Gpt(Rng& rng, const Size& s, std::int64_t context, const nn::Options<B>& at)
      : size(s),
        tokens(rng, s.vocabulary, s.width, at),
        places(rng, context, s.width, at),
        last({s.width}, at) {
    for (auto* table : {&tokens, &places}) table->weight.set(table->weight.value() * 0.02);
    for (std::int64_t i = 0; i < s.blocks; ++i) blocks.emplace_back(rng, s, at);
  }
  std::int64_t context() const { return places.weight->extent(0); }
  Cache<B> empty_cache() const { return Cache<B>(blocks.size()); }

  // text [N, L] → logits [N, L, vocabulary].
  Tensor<B> operator()(const Tensor<B, IntKind>& text, Cache<B>* cache = nullptr) const {
    const std::int64_t before = cache == nullptr ? 0 : cache->at(0).tokens();
    const auto at = arange<B>(text.extent(1), Dtype::i64, text.device()) + before;
    auto x = tokens(text) + places(at);
    for (std::size_t i = 0; i < blocks.size(); ++i)
      x = recompute && cache == nullptr ? checkpoint(std::cref(blocks[i]), x)
                                        : blocks[i](x, cache == nullptr ? nullptr : &(*cache)[i]);
    return matmul(last(x), transpose(*tokens.weight));
  }
  void visit(auto&& part) {
    part("tokens", tokens);
    part("places", places);
    part("blocks", blocks);
    part("last", last);
  }
};

struct SampleOptions {
  std::int64_t count = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  std::uint64_t seed = 1;
  bool cached = true;  // false: the whole window again for every token; the same tokens
};

// Goes on with a text of one token or more. Where the context is full its older half is forgotten.
template <class B>
std::vector<std::int64_t> sample(const Gpt<B>& model, std::vector<std::int64_t> text,
                                 const SampleOptions& options) {
  Rng rng{.seed = options.seed};
  const std::int64_t context = model.context(), vocabulary = model.size.vocabulary;
  std::int64_t start = 0, read = 0;  // of the window; tokens that the cache has
  Cache<B> cache = model.empty_cache();
  const auto device = model.tokens.weight->device();
  for (std::int64_t i = 0; i < options.count; ++i) {
    const auto all = static_cast<std::int64_t>(text.size());
    if (all - start > context) {
      start = all - context / 2;
      read = start;
      cache = model.empty_cache();
    }
    const std::int64_t from = options.cached ? std::max(read, start) : start;
    const std::vector<std::int64_t> fresh(text.begin() + from, text.end());
    const auto in = Tensor<B, IntKind>::from(fresh, {1, all - from}, device);
    const auto logits = options.cached ? model(in, &cache) : model(in);
    read = all;
    const auto next =
        to_float(reshape(slice(logits, 1, all - from - 1, all - from), {vocabulary}), Dtype::f32);
    const auto token =
        options.temperature == 0
            ? argmax(next, 0)
            : reshape(multinomial(rng, softmax(next * (1 / options.temperature)), 1), {});
    text.push_back(token.template item<std::int64_t>());
  }
  return text;
}

}  // namespace gpt
