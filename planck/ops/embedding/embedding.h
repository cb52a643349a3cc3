// Embedding tables: rows by index, their gradients dense and row-sparse, and bags of rows.
//
// V rows of D elements, N indices of any shape. An index is valid where it is in [0, V) and is not
// padding_idx.
//   embedding        out[n] = weight[indices[n]], bit for bit; 0 where the index is not valid
//     backward       dweight[v] = (accumulate ? dweight[v] : 0) + Σ dout[n] over indices[n] = v
//     sparse         rows[0 … count) the distinct valid indices, ascending; values[k] the sum of
//                    row rows[k]. The rest of rows is −1, the rest of values 0
//   embedding_bag    bag b holds the entries n from offsets[b] up to offsets[b + 1] (the last one:
//                    up to N, or to the last offset with include_last_offset). Over its valid
//                    entries:
//     sum            out[b] = Σ weight[indices[n]], or Σ weights[n] * weight[indices[n]]
//     mean           out[b] = Σ weight[indices[n]] / (number of valid entries)
//     max            out[b] = the largest, argmax[b] the first n that has it; NaN is largest
//                    An empty bag is 0, its argmax −1
//     backward       entry n of bag b adds g[n] to dweight[indices[n]]:
//                      sum   dout[b], or dout[b] * weights[n]
//                      mean  dout[b] / (number of valid entries)
//                      max   dout[b] where argmax[b] = n, else +0
//                    dweights[n] = Σ over D of dout[b] * weight[indices[n]]; 0 where the index is
//                    not valid or n is in no bag
//
// Backward keeps the indices and offsets; of a weighted bag also weight and weights, of the largest
// also argmax.
//
// Sums. Contributions in ascending n, in chunks of 64 (planck/math/chunked_sum.h); entries that are
// not valid are none. dweights is summed in the pairwise order. A row that nothing is added to is
// +0, or left as it is where accumulate is true.
//
// Dtypes. T in {float, double, f16, bf16}, indices and offsets int32 or int64, seen at run.
// Arithmetic is in double for double, in float for all others, rounded once at the store. A NaN
// result is the quiet one without a payload; only `embedding` copies NaN as they are.
//
// Views. Any strides; no output overlaps anything.
//
// Total. No index or offset makes a kernel read or write outside its operands. bad_indices, where
// given, is set to the number of indices outside [0, V). Offsets that do not ascend within [0, N]
// are taken as the largest of those before them, all clamped to [0, N]: offset b starts at
// max over k <= b of clamp(offsets[k], 0, N). bad_offsets is set to the number of offsets that were
// not what they are taken as. Entries before the first offset are in no bag, and count as indices
// all the same.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device);
// cuda:atomic, which runs on request by name only, promises none.
#pragma once

#include "planck/ops/embedding/embedding.problem.h"

namespace planck {

struct EmbeddingDescriptor {
  std::int64_t num_embeddings, dim;
  Shape indices;
  std::optional<std::int64_t> padding_idx = {};
  bool accumulate = false;  // EmbeddingBackward: add to dweight as it is
};

struct EmbeddingBagDescriptor {
  std::int64_t num_embeddings, dim;
  std::int64_t indices, bags;  // N, B
  BagMode mode = BagMode::sum;
  bool include_last_offset = false;  // offsets has B + 1 entries
  bool weighted = false;             // one weight per index; sum only
  std::optional<std::int64_t> padding_idx = {};
  // EmbeddingBagBackward.
  bool accumulate = false;
  bool weights_gradient = false;  // also dweights, from weight
};

template <Float T, IndexInt Index>
struct EmbeddingArgs {
  TensorView<const T> weight;
  TensorView<const Index> indices;
  TensorView<T> out;
  TensorView<std::int64_t> bad_indices = {};
  Operands operands() const { return {weight, indices, out, bad_indices}; }
};
template <Float T, IndexInt Index>
struct EmbeddingBackwardArgs {
  TensorView<const T> dout;
  TensorView<const Index> indices;
  TensorView<T> dweight;
  TensorView<std::int64_t> bad_indices = {};
  Operands operands() const { return {dout, indices, dweight, bad_indices}; }
};
template <Float T, IndexInt Index>
struct EmbeddingSparseBackwardArgs {
  TensorView<const T> dout;
  TensorView<const Index> indices;
  TensorView<std::int64_t> rows;  // [N]
  TensorView<T> values;           // [N, D]
  TensorView<std::int64_t> count;
  TensorView<std::int64_t> bad_indices = {};
  Operands operands() const { return {dout, indices, rows, values, count, bad_indices}; }
};
template <Float T, IndexInt Index>
struct EmbeddingBagArgs {
  TensorView<const T> weight;
  TensorView<const Index> indices, offsets;
  TensorView<const T> weights = {};  // with weighted
  TensorView<T> out;
  TensorView<std::int64_t> argmax = {};  // max
  TensorView<std::int64_t> bad_indices = {}, bad_offsets = {};
  Operands operands() const {
    return {weight, indices, offsets, weights, out, argmax, bad_indices, bad_offsets};
  }
};
template <Float T, IndexInt Index>
struct EmbeddingBagBackwardArgs {
  TensorView<const T> dout;
  TensorView<const Index> indices, offsets;
  TensorView<const T> weights = {};            // with weighted
  TensorView<const T> weight = {};             // with weights_gradient
  TensorView<const std::int64_t> argmax = {};  // max
  TensorView<T> dweight;
  TensorView<T> dweights = {};  // with weights_gradient
  TensorView<std::int64_t> bad_indices = {}, bad_offsets = {};
  Operands operands() const {
    return {dout,   indices, offsets,  weights,     weight,
            argmax, dweight, dweights, bad_indices, bad_offsets};
  }
};

namespace embedding_detail {

inline EmbeddingProblem problem(TableOp kind, Dtype element, const EmbeddingDescriptor& d) {
  EmbeddingProblem p;
  p.kind = kind;
  p.element_dtype = element;
  p.num_embeddings = d.num_embeddings;
  p.dim = d.dim;
  p.indices = d.indices;
  p.padding_idx = d.padding_idx.value_or(kNoPaddingIndex);
  p.accumulate = kind == TableOp::add && d.accumulate;
  return p;
}

inline EmbeddingProblem problem(TableOp kind, Dtype element, const EmbeddingBagDescriptor& d) {
  const bool backward = kind == TableOp::add_bags;
  EmbeddingProblem p;
  p.kind = kind;
  p.element_dtype = element;
  p.num_embeddings = d.num_embeddings;
  p.dim = d.dim;
  p.indices = {d.indices};
  p.bags = d.bags;
  p.mode = d.mode;
  p.include_last_offset = d.include_last_offset;
  p.weighted = d.weighted;
  p.padding_idx = d.padding_idx.value_or(kNoPaddingIndex);
  p.accumulate = backward && d.accumulate;
  p.weights_gradient = backward && d.weights_gradient;
  return p;
}

template <TableOp kKind, Float T, class DescriptorType, template <class, class> class ArgsOf>
struct Op {
  using Problem = EmbeddingProblem;
  using Descriptor = DescriptorType;
  template <IndexInt Index>
  using Args = ArgsOf<T, Index>;
  static EmbeddingProblem problem(const Descriptor& d) {
    return embedding_detail::problem(kKind, dtype_of<T>, d);
  }
};

}  // namespace embedding_detail

template <Float T>
using EmbeddingPlan =
    IndexedPlan<embedding_detail::Op<TableOp::read, T, EmbeddingDescriptor, EmbeddingArgs>>;
template <Float T>
using EmbeddingBackwardPlan =
    IndexedPlan<embedding_detail::Op<TableOp::add, T, EmbeddingDescriptor, EmbeddingBackwardArgs>>;
template <Float T>
using EmbeddingSparseBackwardPlan = IndexedPlan<
    embedding_detail::Op<TableOp::add_sparse, T, EmbeddingDescriptor, EmbeddingSparseBackwardArgs>>;
template <Float T>
using EmbeddingBagPlan = IndexedPlan<
    embedding_detail::Op<TableOp::read_bags, T, EmbeddingBagDescriptor, EmbeddingBagArgs>>;
template <Float T>
using EmbeddingBagBackwardPlan = IndexedPlan<
    embedding_detail::Op<TableOp::add_bags, T, EmbeddingBagDescriptor, EmbeddingBagBackwardArgs>>;

}  // namespace planck
