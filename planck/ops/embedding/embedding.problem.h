// The embedding family as one plain value: a TableProblem (loops/table/table.h), as ops with names.
#pragma once

#include <array>

#include "planck/loops/table/table.h"
#include "planck/plan/plan.h"

namespace planck {

inline constexpr int kEmbeddingOperands = 10;  // the most operands an op of the family has

struct EmbeddingProblem : TableProblem {
  bool operator==(const EmbeddingProblem&) const = default;

  // What Selection<EmbeddingProblem> needs.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kEmbeddingOperands> specs() const;
  std::span<const Kernel<EmbeddingProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

// The ops of the family, for the registry.
std::vector<OpEntry> embedding_ops();

}  // namespace planck
