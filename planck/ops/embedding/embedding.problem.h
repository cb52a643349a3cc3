// The embedding family as one plain value: which op, which dtype, which table and which indices.
//
// V rows of D elements; N indices. Whether indices and offsets are i32 or i64 is seen at run:
// kernels ask the operand's view.
#pragma once

#include <array>

#include "planck/plan/plan.h"
#include "planck/plan/registry.h"

namespace planck {

enum class EmbeddingKind : std::uint8_t {
  embedding,
  embedding_backward,
  embedding_sparse_backward,
  embedding_bag,
  embedding_bag_backward,
};
enum class BagMode : std::uint8_t { sum, mean, max };

inline constexpr int kEmbeddingOperands = 10;        // the most operands an op of the family has
inline constexpr std::int64_t kNoPaddingIndex = -1;  // padding_idx where no row is padding

struct EmbeddingProblem {
  EmbeddingKind kind = EmbeddingKind::embedding;
  Dtype element_dtype = Dtype::f32;
  std::int64_t num_embeddings = 0;  // V
  std::int64_t dim = 0;             // D
  Shape indices;                    // bags: rank 1
  std::int64_t padding_idx = kNoPaddingIndex;
  bool accumulate = false;  // (bag_)backward: add to dweight as it is; else write every row of it
  // Bags.
  BagMode mode = BagMode::sum;
  std::int64_t bags = 0;             // B
  bool include_last_offset = false;  // offsets has B + 1 entries, the last one ends the last bag
  bool weighted = false;             // one weight an index; sum only
  bool weights_gradient = false;     // bag_backward: also dweights, from weight
  // Which of i32 and i64 specs() names first; both are accepted.
  Dtype index_dtype = Dtype::i64, offset_dtype = Dtype::i64;

  std::int64_t count() const { return numel(indices); }  // N
  std::int64_t offsets() const { return bags + (include_last_offset ? 1 : 0); }
  bool is_bag() const { return kind >= EmbeddingKind::embedding_bag; }

  bool operator==(const EmbeddingProblem&) const = default;

  // What Selection<EmbeddingProblem> asks for.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kEmbeddingOperands> specs() const;
  std::span<const Kernel<EmbeddingProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

// Operand positions, as in the op's table of operands.
namespace embedding_operand {
struct Embedding {
  enum { weight, indices, out, bad_indices };
};
struct Backward {
  enum { dout, indices, dweight, bad_indices };
};
struct SparseBackward {
  enum { dout, indices, rows, values, count, bad_indices };
};
struct Bag {
  enum { weight, indices, offsets, weights, out, argmax, bad_indices, bad_offsets };
};
struct BagBackward {
  enum {
    dout,
    indices,
    offsets,
    weights,
    weight,
    argmax,
    dweight,
    dweights,
    bad_indices,
    bad_offsets
  };
};
}  // namespace embedding_operand

std::vector<OpEntry> embedding_ops();

}  // namespace planck
