// The CUDA kernels of the conv family, as host code sees them. Workspace sizes are also known to
// builds without CUDA.
#pragma once

#include "planck/ops/conv/conv.problem.h"

namespace planck {

// cuda:places; every dtype, any strides
PLANCK_CUDA_LIBRARY Result<void> conv_cuda(const Stream&, Workspace, const ConvProblem&,
                                           const Operands&);
PLANCK_CUDA_LIBRARY Result<void> conv_weight_cuda(const Stream&, Workspace, const ConvProblem&,
                                                  const Operands&);
std::size_t conv_weight_cuda_workspace(const ConvProblem&);  // sums of chunks

}  // namespace planck
