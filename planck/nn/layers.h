// Small layers: embeddings, dropout, activations and pooling as modules.
#pragma once

#include "planck/autodiff/row_leaf.h"
#include "planck/nn/initialize.h"
#include "planck/ops/embedding/embedding.functions.h"
#include "planck/ops/pool/pool.functions.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck::nn {

// Rows of a table: weight [rows, width], normal(0, 1). With `sparse`, its gradient is that of the
// rows that were read (autodiff/row_leaf.h): optimizers step those rows alone.
template <class B>
struct Embedding {
  Parameter<B> weight;
  std::int64_t padding_idx;
  bool sparse;

  Embedding(Rng& rng, std::int64_t rows, std::int64_t width, const Options<B>& at = {},
            std::int64_t padding = kNoPaddingIndex, bool sparse_gradient = false);
  Tensor<B> operator()(const Tensor<B, IntKind>& indices) const;
  void visit(auto&& part) { part("weight", weight); }
};

template <class B>
Embedding<B>::Embedding(Rng& rng, std::int64_t rows, std::int64_t width, const Options<B>& at,
                        std::int64_t padding, bool sparse_gradient)
    : weight(normal<Inner<B>>(rng, {rows, width}, 0, 1, at.dtype, at.device)),
      padding_idx(padding),
      sparse(sparse_gradient) {}
template <class B>
auto Embedding<B>::operator()(const Tensor<B, IntKind>& indices) const -> Tensor<B> {
  if constexpr (AutodiffBackend<B>)
    if (sparse) return read_rows(*weight, indices, padding_idx);
  return embedding(*weight, indices, padding_idx);
}

// Sums, means or maxima of rows; bag b is indices[offsets[b] … offsets[b + 1]).
template <class B, BagMode mode = BagMode::mean>
struct EmbeddingBag {
  Parameter<B> weight;
  std::int64_t padding_idx;

  EmbeddingBag(Rng& rng, std::int64_t rows, std::int64_t width, const Options<B>& at = {},
               std::int64_t padding = kNoPaddingIndex)
      : weight(normal<Inner<B>>(rng, {rows, width}, 0, 1, at.dtype, at.device)),
        padding_idx(padding) {}
  Tensor<B> operator()(const Tensor<B, IntKind>& indices, const Tensor<B, IntKind>& offsets) const {
    return embedding_bag<mode>(*weight, indices, offsets, padding_idx);
  }
  void visit(auto&& part) { part("weight", weight); }
};

// Zeroes elements with a probability and scales up the rest, in training. Draws from a generator of
// its own, which is part of the state: a resumed run drops the same elements, and so does a segment
// that runs again. Where it fails, nothing is drawn.
struct Dropout {
  double probability;
  Rng rng;
  Mode mode;

  Dropout(double p, std::uint64_t seed) : probability(p), rng{.seed = seed} {
    if (!(p >= 0 && p < 1)) refuse("dropout: the probability is {}, it must be in [0, 1)", {p});
  }
  template <class B>
  Tensor<B> operator()(const Tensor<B>& x) {
    if (!mode.training || probability == 0) return x;
    const Rng before = rng;
    try {
      const auto kept = bernoulli<Inner<B>>(rng, x.shape(), 1 - probability, x.dtype(), x.device());
      return x * constant<B>(kept * (1 / (1 - probability)));
    } catch (...) {
      rng = before;
      throw;
    }
  }
  void visit(auto&& part) {
    part("rng", rng);
    part("mode", mode);
  }
};

#define PLANCK_ACTIVATION(Name, function)            \
  struct Name {                                      \
    template <class B>                               \
    Tensor<B> operator()(const Tensor<B>& x) const { \
      return function(x);                            \
    }                                                \
    void visit(auto&&) {}                            \
  };
PLANCK_ACTIVATION(Relu, relu)          // max(x, 0)
PLANCK_ACTIVATION(Gelu, gelu)          // x (1 + erf(x / √2)) / 2
PLANCK_ACTIVATION(Silu, silu)          // x / (1 + e⁻ˣ)
PLANCK_ACTIVATION(Tanh, tanh)          // tanh x
PLANCK_ACTIVATION(Sigmoid, sigmoid)    // 1 / (1 + e⁻ˣ)
PLANCK_ACTIVATION(Softplus, softplus)  // ln(1 + eˣ)
#undef PLANCK_ACTIVATION
// x where it is positive, slope x elsewhere.
struct LeakyRelu {
  double slope = 0.01;
  template <class B>
  Tensor<B> operator()(const Tensor<B>& x) const {
    return leaky_relu(x, slope);
  }
  void visit(auto&&) {}
};

// [N, …] → [N, all the rest]
struct Flatten {
  template <class B>
  Tensor<B> operator()(const Tensor<B>& x) const {
    return reshape(x, {x.extent(0), -1});
  }
  void visit(auto&&) {}
};

// The largest pixel of each window.
struct MaxPool2d {
  PoolOptions options;
  template <class B>
  Tensor<B> operator()(const Tensor<B>& x) const {
    return max_pool2d(x, options);
  }
  void visit(auto&&) {}
};
// The mean of each window.
struct AvgPool2d {
  PoolOptions options;
  template <class B>
  Tensor<B> operator()(const Tensor<B>& x) const {
    return avg_pool2d(x, options);
  }
  void visit(auto&&) {}
};
// As many windows along each axis as size says, and their means.
struct AdaptiveAvgPool2d {
  std::array<std::int64_t, 2> size;
  template <class B>
  Tensor<B> operator()(const Tensor<B>& x) const {
    return adaptive_avg_pool2d(x, size);
  }
  void visit(auto&&) {}
};

}  // namespace planck::nn
