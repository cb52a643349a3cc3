#include "planck/ops/matmul/matmul.problem.h"

#include <fmt/format.h>

#include "planck/loops/gemm/geometry.h"
#include "planck/plan/broadcast.h"
#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kOperands[] = {{"a", Role::input},
                                     {"b", Role::input},
                                     {"c", Role::output},
                                     {"bias", Role::input, true},
                                     {"residual", Role::input, true}};
constexpr AttributeInfo kAttributes[] = {
    {"math", "",
     "what a product means: chain (one fma after the other, k ascending), exact (f32, s8: "
     "integers), "
     "tensor_core (bf16, f16, f32 as TF32); else the dtype's own: chain for f32 and f64, exact for "
     "s8, tensor_core for bf16 and f16"},
    {"activation", "none", "none, relu, gelu or silu: of what was rounded, before a residual"}};
constexpr OpInfo kInfo = {
    "matmul",
    OpCategory::matmul,
    "c[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + ..., added as `math` says; rounded, then "
    "with a bias: c[i, j] + bias[j]; then the activation; with a residual: + residual[i, j]",
    kOperands,
    kAttributes,
    false,
    true};

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
  if (!serves(math, element_dtype))
    return invalid(
        fmt::format("math is {}, which is not defined for {}", name(math), name(element_dtype)));
  if (element_dtype == Dtype::s8) {
    if (bias) return invalid("a bias is added to floats alone, a is s8");
    if (residual) return invalid("a residual is added to floats alone, a is s8");
    if (activation != Activation::none)
      return invalid(fmt::format("{} is computed of floats alone, a is s8", name(activation)));
  }
  return {};
}

std::array<OperandSpec, 5> MatmulProblem::specs() const {
  std::array<OperandSpec, 5> out;
  out[matmul_operand::a] = {
      .dtype = element_dtype, .shape = with_matrix(batch, m, k), .count_rule = {}};
  out[matmul_operand::b] = {
      .dtype = element_dtype, .shape = with_matrix(batch, k, n), .count_rule = {}};
  out[matmul_operand::c] = {
      .dtype = output_dtype(), .shape = with_matrix(batch, m, n), .count_rule = {}};
  out[matmul_operand::bias] = {
      .dtype = element_dtype, .shape = {n}, .count_rule = {}, .used = bias, .required = bias};
  out[matmul_operand::residual] = {.dtype = element_dtype,
                                   .shape = with_matrix(batch, m, n),
                                   .count_rule = {},
                                   .used = residual,
                                   .required = residual};
  return out;
}

namespace {

Shape batch_of(const Shape& shape) {
  return Shape(std::span(shape.begin(), static_cast<std::size_t>(shape.rank() - 2)));
}

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs) {
  const InputSpec &a = inputs.find("a")->second, &b = inputs.find("b")->second;
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", op.name, text));
  };
  if (a.shape.rank() < 2 || b.shape.rank() < 2)
    return invalid(fmt::format("a has shape {}, b {}: both must have two axes at least",
                               to_string(a.shape), to_string(b.shape)));
  if (a.dtype != b.dtype)
    return invalid(fmt::format("a is {}, b is {}: must be the same", name(a.dtype), name(b.dtype)));
  MatmulProblem p;
  p.element_dtype = a.dtype;
  const auto batch = broadcast_shape(op.name, batch_of(a.shape), batch_of(b.shape));
  if (!batch) return tl::unexpected(batch.error());
  p.batch = *batch;
  p.m = a.shape[a.shape.rank() - 2];
  p.k = a.shape[a.shape.rank() - 1];
  p.n = b.shape[b.shape.rank() - 1];
  if (const std::int64_t rows = b.shape[b.shape.rank() - 2]; rows != p.k)
    return invalid(fmt::format("a has {} columns, b {} rows: must be the same", p.k, rows));
  if (const auto bias = inputs.find("bias"); bias != inputs.end()) {
    p.bias = true;
    if (bias->second.dtype != p.element_dtype || bias->second.shape != Shape{p.n})
      return invalid(fmt::format("the bias is {} {}, must be {} [{}]", name(bias->second.dtype),
                                 to_string(bias->second.shape), name(p.element_dtype), p.n));
  }
  if (const auto residual = inputs.find("residual"); residual != inputs.end()) {
    p.residual = true;
    if (residual->second.dtype != p.element_dtype)
      return invalid(fmt::format("the residual is {}, must be {}", name(residual->second.dtype),
                                 name(p.element_dtype)));
  }
  const std::string activation = AttributeReader(op, attributes).text("activation");
  if (const auto known = parse_activation(activation))
    p.activation = *known;
  else
    return invalid(fmt::format("activation is {}, must be none, relu, gelu or silu", activation));
  p.math = default_product_math(p.element_dtype);
  if (const auto asked = AttributeReader(op, attributes).text("math"); !asked.empty()) {
    const auto math = parse_product_math(asked);
    if (!math)
      return invalid(fmt::format("math is {}, must be chain, exact or tensor_core", asked));
    p.math = *math;
  }
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
