// The bias of a product as loops/gemm takes it.
#pragma once

#include "planck/loops/gemm/cpu/pack.h"
#include "planck/ops/matmul/matmul.problem.h"

namespace planck {

inline gemm::Bias bias_of(const MatmulProblem& p, const Operands& operands) {
  if (!p.bias) return {};
  const View& bias = operands[matmul_operand::bias];
  return {bias.data, 0, bias.strides[0]};
}

}  // namespace planck
