// The CUDA kernels of the quantize family, as host code sees them. Operands have been checked
// against the problem. Workspace sizes are also known to builds without CUDA.
#pragma once

#include "planck/ops/quantize/quantize.problem.h"

namespace planck {

PLANCK_CUDA_LIBRARY Result<void> quantize_cuda(const Stream&, Workspace, const QuantProblem&,
                                               const Operands&);
std::size_t quantize_cuda_workspace(const QuantProblem&);

}  // namespace planck
