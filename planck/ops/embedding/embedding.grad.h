// Gradients of embedding: rows of dout, summed where their row was read.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/embedding/embedding.functions.h"

namespace planck {

template <class R>
auto pullback(const Embedding& op, const R& r) {
  return [op, rows = shape_of<0>(r)[0], indices = in<1>(r)](auto& g) {
    g.give(0, call(EmbeddingBackward{rows, op.padding_idx}, g.dy(), indices));
  };
}
template <class R>
auto pullback(const EmbeddingBackward& op, const R& r) {
  return [op, indices = in<1>(r)](auto& g) {
    g.give(0, std::get<0>(call(Embedding{op.padding_idx}, g.dy(), indices)));
  };
}
template <class R>
auto pullback(const EmbeddingSparseBackward&, const R&) {
  return no_pullback("rows of a gradient have no derivative; embedding has");
}
template <class R>
auto pullback(const EmbeddingBag<BagMode::sum, true>& op, const R& r) {
  return [op, weight = in<0>(r), indices = in<1>(r), offsets = in<2>(r),
          weights = in<3>(r)](auto& g) {
    const auto table = g[weight];
    auto [dweight, dweights] = call(EmbeddingBagBackward<BagMode::sum, true>{op, table.shape()[0]},
                                    g.dy(), indices, offsets, g[weights], table);
    if (g.needs(0)) g.give(0, dweight);
    if (g.needs(3)) g.give(3, dweights);
  };
}
template <BagMode Mode, class R>
auto pullback(const EmbeddingBag<Mode, false>& op, const R& r) {
  const std::int64_t rows = shape_of<0>(r)[0];
  if constexpr (Mode == BagMode::max)
    return [op, rows, indices = in<1>(r), offsets = in<2>(r), argmax = out<1>(r)](auto& g) {
      g.give(0, call(EmbeddingBagBackward<Mode>{op, rows}, g.dy(), indices, offsets, argmax));
    };
  else
    return [op, rows, indices = in<1>(r), offsets = in<2>(r)](auto& g) {
      g.give(0, call(EmbeddingBagBackward<Mode>{op, rows}, g.dy(), indices, offsets));
    };
}
template <BagMode Mode, bool Weighted, class R>
auto pullback(const EmbeddingBagBackward<Mode, Weighted>&, const R&) {
  return no_pullback("embedding_bag has no second derivative; embedding has");
}

}  // namespace planck
