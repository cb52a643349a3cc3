// Matrix products as values; matmul.h says what they compute. Batch axes of both inputs are equal;
// matmul() on tensors broadcasts them. A third input is the bias.
#pragma once

#include "planck/ops/matmul/matmul.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

struct Matmul {
  static constexpr std::string_view name = "matmul";
  std::string_view kernel = {};          // force one: "cpu:openblas", "cuda:cublaslt"
  std::optional<ProductMath> math = {};  // none: as the stream of the inputs says

  Result<MatmulProblem> problem(std::span<const InputSpec> in) const;
};

}  // namespace planck
