// The CUDA kernels of the attention family, as host code sees them. Operands have been checked
// against the problem.
#pragma once

#include "planck/ops/attention/attention.problem.h"

namespace planck {

// cuda:rows; every dtype and math, any strides. The workspace has delta, for backward.
PLANCK_CUDA_LIBRARY Result<void> attention_cuda(const Stream&, Workspace, const AttentionProblem&,
                                                const Operands&);
std::size_t attention_cuda_workspace(const AttentionProblem&);

}  // namespace planck
