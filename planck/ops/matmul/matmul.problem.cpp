#include "planck/ops/matmul/matmul.problem.h"

#include <fmt/format.h>

#include "planck/loops/gemm/geometry.h"

namespace planck {

namespace {

constexpr OperandInfo kOperands[] = {{"a", Role::input}, {"b", Role::input}, {"c", Role::output}};
constexpr OpInfo kInfo = {
    "matmul",
    OpCategory::matmul,
    "c[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + ..., a chain of fma from +0, k ascending",
    kOperands,
    {},
    false};

Shape with_matrix(const Shape& batch, std::int64_t rows, std::int64_t columns) {
  Shape s = batch;
  s.push_back(rows);
  s.push_back(columns);
  return s;
}

}  // namespace

const OpInfo& MatmulProblem::info() const { return kInfo; }

Result<void> MatmulProblem::check() const {
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", kInfo.name, text));
  };
  if (!is_float(element_dtype) && element_dtype != Dtype::s8)
    return invalid(
        fmt::format("element dtype is {}, must be f32, f64, f16, bf16 or s8", name(element_dtype)));
  if (batch.rank() > kMaxRank - 2)
    return invalid(fmt::format("there are {} batch axes, at most {} leave room for the matrices'",
                               batch.rank(), kMaxRank - 2));
  for (const Shape& shape :
       {with_matrix(batch, m, k), with_matrix(batch, k, n), with_matrix(batch, m, n)})
    if (auto ok = check_shape(shape, kInfo.name); !ok) return ok;
  if (element_dtype == Dtype::s8 && k > gemm::kMostIntegerProducts)
    return invalid(fmt::format("K is {}, sums of s8 products fit in i32 up to {}", k,
                               gemm::kMostIntegerProducts));
  return {};
}

std::array<OperandSpec, 3> MatmulProblem::specs() const {
  std::array<OperandSpec, 3> out;
  out[matmul_operand::a] = {
      .dtype = element_dtype, .shape = with_matrix(batch, m, k), .count_rule = {}};
  out[matmul_operand::b] = {
      .dtype = element_dtype, .shape = with_matrix(batch, k, n), .count_rule = {}};
  out[matmul_operand::c] = {
      .dtype = output_dtype(), .shape = with_matrix(batch, m, n), .count_rule = {}};
  return out;
}

namespace {

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes&,
                                          const InputSpecs& inputs) {
  const InputSpec &a = inputs.find("a")->second, &b = inputs.find("b")->second;
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", op.name, text));
  };
  const int rank = a.shape.rank();
  if (rank < 2)
    return invalid(fmt::format("a has shape {}, must have two axes at least", to_string(a.shape)));
  if (b.shape.rank() != rank)
    return invalid(fmt::format("b has shape {}, a {}: must have as many axes", to_string(b.shape),
                               to_string(a.shape)));
  if (a.dtype != b.dtype)
    return invalid(fmt::format("a is {}, b is {}: must be the same", name(a.dtype), name(b.dtype)));
  MatmulProblem p;
  p.element_dtype = a.dtype;
  for (int d = 0; d < rank - 2; ++d) {
    if (a.shape[d] != b.shape[d])
      return invalid(
          fmt::format("axis {} is {} in a, {} in b: must be the same", d, a.shape[d], b.shape[d]));
    p.batch.push_back(a.shape[d]);
  }
  p.m = a.shape[rank - 2];
  p.k = a.shape[rank - 1];
  p.n = b.shape[rank - 1];
  if (b.shape[rank - 2] != p.k)
    return invalid(
        fmt::format("a has {} columns, b {} rows: must be the same", p.k, b.shape[rank - 2]));
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<MatmulProblem>(p));
}

}  // namespace

std::vector<OpEntry> matmul_ops() {
  return {{&kInfo,
           {{Dtype::f32, std::nullopt},
            {Dtype::f64, std::nullopt},
            {Dtype::f16, std::nullopt},
            {Dtype::bf16, std::nullopt},
            {Dtype::s8, Dtype::i32}},
           parse}};
}

}  // namespace planck
