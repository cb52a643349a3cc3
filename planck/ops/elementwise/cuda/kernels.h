// The CUDA kernel of the elementwise family, as host code sees it. Operands have been checked
// against the problem.
#pragma once

#include "planck/ops/elementwise/elementwise.problem.h"

namespace planck {

PLANCK_CUDA_LIBRARY Result<void> elementwise_cuda_run(const Stream&, Workspace,
                                                      const ElementwiseProblem&, const Operands&);

}  // namespace planck
