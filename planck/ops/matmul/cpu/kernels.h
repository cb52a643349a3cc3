// The CPU kernels of the matmul family. Operands have been checked against the problem.
#pragma once

#include "planck/ops/matmul/matmul.problem.h"

namespace planck {

// cpu:fma_chain; every dtype, any strides
Result<void> matmul_cpu(const Stream&, Workspace, const MatmulProblem&, const Operands&);
std::size_t matmul_cpu_workspace(const MatmulProblem&);

// cpu:openblas; floats
std::string matmul_openblas_refusal(const MatmulProblem&);
Result<void> matmul_openblas(const Stream&, Workspace, const MatmulProblem&, const Operands&);
std::size_t matmul_openblas_workspace(const MatmulProblem&);

}  // namespace planck
