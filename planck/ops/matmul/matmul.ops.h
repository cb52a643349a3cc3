// Matrix products as values; matmul.h says what they compute. Batch axes of both inputs are equal;
// matmul() on tensors broadcasts them. A third input is the bias, or a residual where `residual`
// says so; of four the third is the bias, the last the residual.
#pragma once

#include "planck/ops/matmul/matmul.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

struct Matmul {
  static constexpr std::string_view name = "matmul";
  std::string_view kernel = {};          // force one: "cpu:openblas", "cuda:cublaslt"
  std::optional<ProductMath> math = {};  // none: as the stream of the inputs says
  Activation activation = Activation::none;
  bool residual = false;

  bool has_bias(std::size_t inputs) const { return inputs == 4 || (inputs == 3 && !residual); }
  bool has_residual(std::size_t inputs) const { return inputs == 4 || residual; }
  Result<MatmulProblem> problem(std::span<const InputSpec> in) const;
};

}  // namespace planck
