// Embedding as values; embedding.h says what each op computes. Counters of indices out of range are
// the last outputs.
#pragma once

#include "planck/ops/embedding/embedding.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

// weight [V, D], indices → out [..., D], bad_indices
struct Embedding {
  static constexpr std::string_view name = "embedding";
  using Gives = Kinds<FloatKind, IntKind>;
  std::int64_t padding_idx = kNoPaddingIndex;
  Result<EmbeddingProblem> problem(std::span<const InputSpec> in) const;
};
// dout, indices → dweight [V, D]
struct EmbeddingBackward {
  static constexpr std::string_view name = "embedding_backward";
  using Gives = FloatKind;
  std::int64_t num_embeddings = 0, padding_idx = kNoPaddingIndex;
  Result<EmbeddingProblem> problem(std::span<const InputSpec> in) const;
};
// dout, indices → rows [N], values [N, D], count: the rows that have a gradient, ascending
struct EmbeddingSparseBackward {
  static constexpr std::string_view name = "embedding_sparse_backward";
  using Gives = Kinds<IntKind, FloatKind, IntKind>;
  std::int64_t num_embeddings = 0, padding_idx = kNoPaddingIndex;
  Result<EmbeddingProblem> problem(std::span<const InputSpec> in) const;
};
// weight, indices [N], offsets [B], and weights [N] where Weighted
// → out [B, D], argmax where Mode is max, bad_indices, bad_offsets
template <BagMode Mode, bool Weighted = false>
struct EmbeddingBag {
  static constexpr std::string_view name = "embedding_bag";
  using Gives =
      std::conditional_t<Mode == BagMode::max, Kinds<FloatKind, IntKind, IntKind, IntKind>,
                         Kinds<FloatKind, IntKind, IntKind>>;
  std::int64_t padding_idx = kNoPaddingIndex;
  bool include_last_offset = false;
  Result<EmbeddingProblem> problem(std::span<const InputSpec> in) const;
};
// dout, indices, offsets, then weights and weight where Weighted, argmax where Mode is max
// → dweight, and dweights where Weighted
template <BagMode Mode, bool Weighted = false>
struct EmbeddingBagBackward {
  static constexpr std::string_view name = "embedding_bag_backward";
  using Gives = std::conditional_t<Weighted, Kinds<FloatKind, FloatKind>, FloatKind>;
  EmbeddingBag<Mode, Weighted> forward;
  std::int64_t num_embeddings = 0;
  Result<EmbeddingProblem> problem(std::span<const InputSpec> in) const;
};

}  // namespace planck
