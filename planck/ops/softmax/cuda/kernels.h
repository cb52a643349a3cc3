// The CUDA kernel of the softmax family, as host code sees it. Operands have been checked against
// the problem.
#pragma once

#include "planck/ops/softmax/softmax.problem.h"

namespace planck {

PLANCK_CUDA_LIBRARY Result<void> softmax_cuda(const Stream&, Workspace, const SoftmaxProblem&,
                                              const Operands&);

}  // namespace planck
