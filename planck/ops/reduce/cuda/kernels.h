// The CUDA kernels of the reduce family, as host code sees them. Workspace sizes are also known to
// builds without CUDA.
#pragma once

#include "planck/ops/reduce/reduce.problem.h"

namespace planck {

PLANCK_CUDA_LIBRARY Result<void> reduce_cuda(const Stream&, Workspace, const ReduceProblem&,
                                             const Operands&);
std::size_t reduce_cuda_workspace(const ReduceProblem&);

PLANCK_CUDA_LIBRARY Result<void> cumsum_cuda(const Stream&, Workspace, const ReduceProblem&,
                                             const Operands&);

// cummax and cummin
PLANCK_CUDA_LIBRARY Result<void> running_extreme_cuda(const Stream&, Workspace,
                                                      const ReduceProblem&, const Operands&);

}  // namespace planck
