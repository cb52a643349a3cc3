// The CUDA kernel of the pool family, as host code sees it. Operands have been checked against the
// problem.
#pragma once

#include "planck/ops/pool/pool.problem.h"

namespace planck {

// cuda:direct
PLANCK_CUDA_LIBRARY Result<void> pool_cuda(const Stream&, Workspace, const PoolProblem&,
                                           const Operands&);

}  // namespace planck
