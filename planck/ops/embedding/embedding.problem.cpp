#include "planck/ops/embedding/embedding.problem.h"

#include <fmt/format.h>

#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kBadIndices = {"bad_indices", Role::output, true};
constexpr OperandInfo kBadOffsets = {"bad_offsets", Role::output, true, false,
                                     "offsets that do not ascend within [0, N]"};

constexpr OperandInfo kEmbedding[] = {
    {"weight", Role::input}, {"indices", Role::input}, {"out", Role::output}, kBadIndices};
constexpr OperandInfo kBackward[] = {{"dout", Role::input},
                                     {"indices", Role::input},
                                     {"dweight", Role::output, false, true},
                                     kBadIndices};
constexpr OperandInfo kSparseBackward[] = {{"dout", Role::input},   {"indices", Role::input},
                                           {"rows", Role::output},  {"values", Role::output},
                                           {"count", Role::output}, kBadIndices};
constexpr OperandInfo kBag[] = {{"weight", Role::input},
                                {"indices", Role::input},
                                {"offsets", Role::input},
                                {"weights", Role::input, true},
                                {"out", Role::output},
                                {"argmax", Role::output, true},
                                kBadIndices,
                                kBadOffsets};
constexpr OperandInfo kBagBackward[] = {{"dout", Role::input},
                                        {"indices", Role::input},
                                        {"offsets", Role::input},
                                        {"weights", Role::input, true},
                                        {"weight", Role::input, true},
                                        {"argmax", Role::input, true},
                                        {"dweight", Role::output, false, true},
                                        {"dweights", Role::output, true},
                                        kBadIndices,
                                        kBadOffsets};

constexpr AttributeInfo kPadding = {"padding_idx", "-1",
                                    "a row that reads as zeros and gets no gradient; -1: none"};
constexpr AttributeInfo kRows = {"num_embeddings", "",
                                 "rows of dweight; as in dweight where it is given"};
constexpr AttributeInfo kAccumulate = {"accumulate", "false",
                                       "true: add to dweight; false: write every row of it"};
constexpr AttributeInfo kMode = {"mode", "sum", "sum, mean (over valid entries) or max"};
constexpr AttributeInfo kLastOffset = {"include_last_offset", "false",
                                       "true: the last offset is the end of the last bag"};

constexpr AttributeInfo kEmbeddingAttributes[] = {kPadding};
constexpr AttributeInfo kBackwardAttributes[] = {kRows, kAccumulate, kPadding};
constexpr AttributeInfo kSparseAttributes[] = {kRows, kPadding};
constexpr AttributeInfo kBagAttributes[] = {kMode, kLastOffset, kPadding};
constexpr AttributeInfo kBagBackwardAttributes[] = {kMode, kLastOffset, kRows, kAccumulate,
                                                    kPadding};

// In the order of TableOp. Rows are gathered, so that no op works in place.
constexpr OpInfo kInfos[] = {
    {"embedding", OpCategory::embedding,
     "out[n] = weight[indices[n]]; 0 where the index is padding or out of range", kEmbedding,
     kEmbeddingAttributes, false},
    {"embedding_backward", OpCategory::embedding,
     "dweight[v] = (accumulate ? dweight[v] : 0) + sum of dout[n] over indices[n] = v", kBackward,
     kBackwardAttributes, false},
    {"embedding_sparse_backward", OpCategory::embedding,
     "rows = the distinct valid indices, ascending, then -1; values[k] = sum of dout[n] over "
     "indices[n] = rows[k], then 0",
     kSparseBackward, kSparseAttributes, false},
    {"embedding_bag", OpCategory::embedding,
     "out[b] = sum, mean or max over n in bag b of weights[n] * weight[indices[n]]", kBag,
     kBagAttributes, false},
    {"embedding_bag_backward", OpCategory::embedding,
     "dweight[v] = (accumulate ? dweight[v] : 0) + sum of the gradients of entries n with "
     "indices[n] = v; dweights[n] = dot(dout[bag of n], weight[indices[n]])",
     kBagBackward, kBagBackwardAttributes, false},
};

Shape with_dim(const Shape& indices, std::int64_t dim) {
  Shape s = indices;
  s.push_back(dim);
  return s;
}

constexpr std::string_view name(BagMode mode) {
  constexpr std::string_view kNames[] = {"sum", "mean", "max"};
  return kNames[static_cast<int>(mode)];
}

}  // namespace

const OpInfo& EmbeddingProblem::info() const { return kInfos[static_cast<std::size_t>(kind)]; }

Result<void> EmbeddingProblem::check() const {
  const std::string_view op = info().name;
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", op, text));
  };
  if (!is_float(element_dtype))
    return invalid(
        fmt::format("element dtype is {}, must be f32, f64, f16 or bf16", name(element_dtype)));
  if (indices.rank() >= kMaxRank)
    return invalid(fmt::format("indices have {} axes, at most {} leave room for the rows'",
                               indices.rank(), kMaxRank - 1));
  if (auto ok = check_shape({num_embeddings, dim}, op); !ok) return ok;
  if (auto ok = check_shape(indices, op); !ok) return ok;
  if (auto ok = check_shape(with_dim(indices, dim), op); !ok) return ok;
  if (padding_idx != kNoPaddingIndex && (padding_idx < 0 || padding_idx >= num_embeddings))
    return invalid(fmt::format("padding_idx is {}, must be -1 or a row of the table's {}",
                               padding_idx, num_embeddings));
  for (Dtype t : {index_dtype, offset_dtype})
    if (t != Dtype::i32 && t != Dtype::i64)
      return invalid(fmt::format("index dtype is {}, must be i32 or i64", planck::name(t)));
  if (!is_bag()) return {};
  if (indices.rank() != 1)
    return invalid(
        fmt::format("indices have shape {}, bags cut a list: one axis", to_string(indices)));
  if (bags < 0) return invalid(fmt::format("there are {} bags, must be at least 0", bags));
  if (auto ok = check_shape({bags, dim}, op); !ok) return ok;
  if (weighted && mode != BagMode::sum)
    return invalid(fmt::format("weights go with mode=sum, mode is {}", name(mode)));
  if (weights_gradient && !weighted) return invalid("dweights is asked for, there are no weights");
  return {};
}

std::array<OperandSpec, kEmbeddingOperands> EmbeddingProblem::specs() const {
  std::array<OperandSpec, kEmbeddingOperands> out;
  const OpInfo& op = info();
  const auto other = [](Dtype t) { return t == Dtype::i32 ? Dtype::i64 : Dtype::i32; };
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const std::string_view operand = op.operands[i].name;
    OperandSpec& s = out[i];
    s.dtype = element_dtype;
    if (operand == "weight" || operand == "dweight") s.shape = {num_embeddings, dim};
    if (operand == "out" || operand == "dout")
      s.shape = is_bag() ? Shape{bags, dim} : with_dim(indices, dim);
    if (operand == "values") s.shape = {count(), dim};
    if (operand == "weights" || operand == "dweights") s.shape = {count()};
    if (operand == "indices") {
      s.shape = indices;
      s.dtype = index_dtype;
      s.other_dtype = other(index_dtype);
    }
    if (operand == "offsets") {
      s.shape = {offsets()};
      s.dtype = offset_dtype;
      s.other_dtype = other(offset_dtype);
    }
    if (operand == "rows" || operand == "count" || operand == "argmax" ||
        operand.starts_with("bad_"))
      s.dtype = Dtype::i64;
    if (operand == "rows") s.shape = {count()};
    if (operand == "argmax") s.shape = {bags, dim};
    // What bags may have.
    const bool backward = kind == TableOp::add_bags;
    if (operand == "weights") s.used = s.required = weighted;
    if (operand == "weight" && backward) s.used = s.required = weights_gradient;
    if (operand == "dweights") s.used = s.required = weights_gradient;
    if (operand == "argmax") s.used = mode == BagMode::max;
    if (operand == "argmax" && backward) s.required = s.used;
  }
  return out;
}

namespace {

// Reads an input's extent along an axis; an error where it has no such axis.
class InputReader {
 public:
  InputReader(const OpInfo& op, const InputSpecs& inputs) : op_(op), inputs_(inputs) {}
  bool has(std::string_view operand) const { return inputs_.find(operand) != inputs_.end(); }
  const InputSpec& operator[](std::string_view operand) const {
    return inputs_.find(operand)->second;
  }
  Result<Shape> of_rank(std::string_view operand, int rank) const {
    const Shape& shape = (*this)[operand].shape;
    if (shape.rank() == rank) return shape;
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {} has shape {}, must have {} axes",
                                                        op_.name, operand, to_string(shape), rank));
  }

 private:
  const OpInfo& op_;
  const InputSpecs& inputs_;
};

Result<void> read_bags(const OpInfo& op, const AttributeReader& read, const InputReader& inputs,
                       EmbeddingProblem& p) {
  const std::string mode = read.text("mode");
  if (mode != "sum" && mode != "mean" && mode != "max")
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: mode={} is not sum, mean or max", op.name, mode));
  p.mode = mode == "sum" ? BagMode::sum : mode == "mean" ? BagMode::mean : BagMode::max;
  const auto last = read.boolean("include_last_offset");
  if (!last) return tl::unexpected(last.error());
  p.include_last_offset = *last;
  p.offset_dtype = inputs["offsets"].dtype;
  const auto offsets = inputs.of_rank("offsets", 1);
  if (!offsets) return tl::unexpected(offsets.error());
  if (*last && (*offsets)[0] == 0)
    return fail(
        ErrorCode::invalid_problem,
        fmt::format("{}: offsets is empty, include_last_offset needs one at least", op.name));
  p.bags = (*offsets)[0] - (*last ? 1 : 0);
  p.weighted = inputs.has("weights");
  p.weights_gradient = p.kind == TableOp::add_bags && p.weighted && inputs.has("weight");
  return {};
}

// Rows of the table: the weight's, dweight's, or the attribute.
Result<void> read_table(const OpInfo& op, const AttributeReader& read, const InputReader& inputs,
                        EmbeddingProblem& p) {
  for (std::string_view table : {"weight", "dweight"}) {
    if (!inputs.has(table)) continue;
    const auto shape = inputs.of_rank(table, 2);
    if (!shape) return tl::unexpected(shape.error());
    p.num_embeddings = (*shape)[0];
    if (table == "weight" && p.kind != TableOp::add_bags) p.dim = (*shape)[1];
    if (read.text("num_embeddings").empty()) return {};
  }
  if (read.text("num_embeddings").empty())
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: num_embeddings is not set, and no dweight is given", op.name));
  const auto rows = read.integer("num_embeddings");
  if (!rows) return tl::unexpected(rows.error());
  p.num_embeddings = *rows;
  return {};
}

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& specs, TableOp kind) {
  const AttributeReader read(op, attributes);
  const InputReader inputs(op, specs);
  EmbeddingProblem p;
  p.kind = kind;
  p.element_dtype = inputs[op.operands[0].name].dtype;
  p.indices = inputs["indices"].shape;
  p.index_dtype = inputs["indices"].dtype;
  const auto padding = read.integer("padding_idx");
  if (!padding) return tl::unexpected(padding.error());
  p.padding_idx = *padding;
  if (p.is_bag())
    if (auto ok = read_bags(op, read, inputs, p); !ok) return tl::unexpected(ok.error());
  if (auto ok = read_table(op, read, inputs, p); !ok) return tl::unexpected(ok.error());
  if (inputs.has("dout")) {
    const auto dout = inputs.of_rank("dout", p.indices.rank() + 1);
    if (!dout) return tl::unexpected(dout.error());
    p.dim = (*dout)[dout->rank() - 1];
  }
  if (!read.text("accumulate").empty()) {
    const auto accumulate = read.boolean("accumulate");
    if (!accumulate) return tl::unexpected(accumulate.error());
    p.accumulate = *accumulate;
    if (p.accumulate && !inputs.has("dweight"))
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: accumulate=true adds to dweight, which is not given", op.name));
  }
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<EmbeddingProblem>(p));
}

}  // namespace

std::vector<OpEntry> embedding_ops() {
  return entries_of_kinds<&parse>(kInfos, [](TableOp) { return float_elements(); });
}

}  // namespace planck
