// The matmul family as one plain value: dtype, batch axes, M, N, K, what a product means, and what
// follows it.
#pragma once

#include <array>

#include "planck/core/activation.h"
#include "planck/core/product_math.h"
#include "planck/plan/plan.h"

namespace planck {

struct MatmulProblem {
  Dtype element_dtype = Dtype::f32;  // of A and B
  Shape batch;                       // leading axes of A, B and C
  std::int64_t m = 0, n = 0, k = 0;
  ProductMath math = default_product_math(element_dtype);
  bool bias = false;                         // [N], floats: added to every row once it is rounded
  Activation activation = Activation::none;  // of that, rounded too
  bool residual = false;                     // like C: added last
  ProductMath product_math() const { return math; }

  bool operator==(const MatmulProblem&) const = default;
  bool multiplies_alone() const { return !bias && activation == Activation::none && !residual; }
  Dtype output_dtype() const { return element_dtype == Dtype::s8 ? Dtype::i32 : element_dtype; }

  // What Selection<MatmulProblem> asks for.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, 5> specs() const;
  std::span<const Kernel<MatmulProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const {
    return element_dtype == Dtype::s8 ? std::optional(Dtype::i32) : std::nullopt;
  }
};

namespace matmul_operand {
enum { a, b, c, bias, residual };
}

std::vector<OpEntry> matmul_ops();

}  // namespace planck
