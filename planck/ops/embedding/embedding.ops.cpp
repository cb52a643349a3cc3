#include "planck/ops/embedding/embedding.ops.h"

#include <fmt/format.h>

namespace planck {

namespace {

Result<EmbeddingProblem> of_table(std::string_view op, TableOp kind, const InputSpec& weight,
                                  const InputSpec& indices, std::int64_t padding_idx) {
  if (weight.shape.rank() != 2)
    return fail(
        ErrorCode::invalid_problem,
        fmt::format("{}: weight has shape {}, it must be [V, D]", op, to_string(weight.shape)));
  EmbeddingProblem p;
  p.kind = kind;
  p.element_dtype = weight.dtype;
  p.num_embeddings = weight.shape[0];
  p.dim = weight.shape[1];
  p.indices = indices.shape;
  p.index_dtype = indices.dtype;
  p.padding_idx = padding_idx;
  return p;
}

// dout, indices
Result<EmbeddingProblem> of_gradient(std::string_view op, TableOp kind,
                                     std::span<const InputSpec> in, std::int64_t rows,
                                     std::int64_t padding_idx) {
  const Shape& dout = in[0].shape;
  if (dout.rank() == 0)
    return fail(ErrorCode::invalid_problem, fmt::format("{}: dout has no axis D", op));
  const InputSpec weight{in[0].dtype, {rows, dout[dout.rank() - 1]}};
  return of_table(op, kind, weight, in[1], padding_idx);
}

Result<EmbeddingProblem> of_bags(EmbeddingProblem p, const InputSpec& offsets, BagMode mode,
                                 bool weighted, bool include_last) {
  if (offsets.shape.rank() != 1 || (include_last && offsets.shape[0] == 0))
    return fail(ErrorCode::invalid_problem,
                fmt::format("embedding_bag: offsets has shape {}, it must be [{}]",
                            to_string(offsets.shape), include_last ? "B + 1" : "B"));
  p.mode = mode;
  p.bags = offsets.shape[0] - (include_last ? 1 : 0);
  p.include_last_offset = include_last;
  p.weighted = weighted;
  p.offset_dtype = offsets.dtype;
  return p;
}

}  // namespace

Result<EmbeddingProblem> Embedding::problem(std::span<const InputSpec> in) const {
  return of_table(name, TableOp::read, in[0], in[1], padding_idx);
}

Result<EmbeddingProblem> EmbeddingBackward::problem(std::span<const InputSpec> in) const {
  return of_gradient(name, TableOp::add, in, num_embeddings, padding_idx);
}
Result<EmbeddingProblem> EmbeddingSparseBackward::problem(std::span<const InputSpec> in) const {
  return of_gradient(name, TableOp::add_sparse, in, num_embeddings, padding_idx);
}

template <BagMode Mode, bool Weighted>
Result<EmbeddingProblem> EmbeddingBag<Mode, Weighted>::problem(
    std::span<const InputSpec> in) const {
  return of_table(name, TableOp::read_bags, in[0], in[1], padding_idx)
      .and_then([&](const EmbeddingProblem& p) {
        return of_bags(p, in[2], Mode, Weighted, include_last_offset);
      });
}

template <BagMode Mode, bool Weighted>
Result<EmbeddingProblem> EmbeddingBagBackward<Mode, Weighted>::problem(
    std::span<const InputSpec> in) const {
  const InputSpec weight{in[0].dtype, {num_embeddings, in[0].shape[1]}};
  return of_table(name, TableOp::add_bags, weight, in[1], forward.padding_idx)
      .and_then([&](const EmbeddingProblem& p) {
        return of_bags(p, in[2], Mode, Weighted, forward.include_last_offset);
      })
      .map([](EmbeddingProblem p) {
        p.weights_gradient = Weighted;
        return p;
      });
}

template struct EmbeddingBag<BagMode::sum, false>;
template struct EmbeddingBag<BagMode::sum, true>;
template struct EmbeddingBag<BagMode::mean, false>;
template struct EmbeddingBag<BagMode::max, false>;
template struct EmbeddingBagBackward<BagMode::sum, false>;
template struct EmbeddingBagBackward<BagMode::sum, true>;
template struct EmbeddingBagBackward<BagMode::mean, false>;
template struct EmbeddingBagBackward<BagMode::max, false>;

}  // namespace planck
