// Rows of a table by index, as one plain value: what the embedding family needs, and index_select,
// scatter_add and index_add where their items are rows. planck/ops/embedding/embedding.h says what
// is computed, in which order sums run, and what bad indices and offsets do.
//
//   read         out[n] = weight[indices[n]]
//   add          dweight[indices[n]] += dout[n]
//   add_sparse   the rows that have a sum, and their sums
//   read_bags    out[b] = the sum, mean or largest of a bag's rows
//   add_bags     its gradient
//
// V rows of D elements; N indices. Whether indices and offsets are i32 or i64 is read from the
// operand's view at run.
#pragma once

#include "planck/core/dtype.h"
#include "planck/core/shape.h"

namespace planck {

enum class TableOp : std::uint8_t { read, add, add_sparse, read_bags, add_bags };
enum class BagMode : std::uint8_t { sum, mean, max };

inline constexpr std::int64_t kNoPaddingIndex = -1;  // padding_idx where no row is padding

struct TableProblem {
  TableOp kind = TableOp::read;
  Dtype element_dtype = Dtype::f32;
  std::int64_t num_embeddings = 0;  // V
  std::int64_t dim = 0;             // D
  Shape indices;                    // bags: rank 1
  std::int64_t padding_idx = kNoPaddingIndex;
  bool accumulate = false;  // add, add_bags: to dweight as it is; else every row of it is written
  // Bags.
  BagMode mode = BagMode::sum;
  std::int64_t bags = 0;             // B
  bool include_last_offset = false;  // offsets has B + 1 entries, the last one ends the last bag
  bool weighted = false;             // one weight per index; sum only
  bool weights_gradient = false;     // add_bags: also dweights, from weight
  // Which of i32 and i64 specs() names first; both are accepted.
  Dtype index_dtype = Dtype::i64, offset_dtype = Dtype::i64;

  std::int64_t count() const { return numel(indices); }  // N
  std::int64_t offsets() const { return bags + (include_last_offset ? 1 : 0); }
  bool is_bag() const { return kind >= TableOp::read_bags; }

  bool operator==(const TableProblem&) const = default;
};

// Positions of the operands.
namespace table_operand {
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
}  // namespace table_operand

}  // namespace planck
