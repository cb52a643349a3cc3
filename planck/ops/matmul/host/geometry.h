// A problem and its operands as loops/gemm takes them.
#pragma once

#include "planck/loops/gemm/geometry.h"
#include "planck/ops/matmul/matmul.problem.h"

namespace planck {

inline gemm::Geometry geometry_of(const MatmulProblem& p, const Operands& operands,
                                  gemm::Fold fold = gemm::Fold::yes) {
  return gemm::geometry(p.batch, p.m, p.n, p.k, operands,
                        {p.bias ? &operands[matmul_operand::bias] : nullptr, p.activation,
                         p.residual ? &operands[matmul_operand::residual] : nullptr},
                        fold);
}

}  // namespace planck
