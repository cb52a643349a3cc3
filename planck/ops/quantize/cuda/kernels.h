// The CUDA kernels of the quantize family, as host code sees them. Operands have been checked
// against the problem. Workspace sizes are also known to builds without CUDA.
#pragma once

#include "planck/ops/quantize/quantize.problem.h"

namespace planck {

// Elementwise kinds. vector: loads of several elements where the operands allow it (runs, columns),
// else as strided; strided: element by element, wherever operands lie.
PLANCK_CUDA_LIBRARY Result<void> quantize_vector_cuda(const Stream&, Workspace, const QuantProblem&,
                                                      const Operands&);
PLANCK_CUDA_LIBRARY Result<void> quantize_strided_cuda(const Stream&, Workspace,
                                                       const QuantProblem&, const Operands&);

// dynamic_quantize
PLANCK_CUDA_LIBRARY Result<void> quantize_dynamic_cuda(const Stream&, Workspace,
                                                       const QuantProblem&, const Operands&);
std::size_t quantize_dynamic_cuda_workspace(const QuantProblem&);

// fake_quantize_backward with dscale and dzero_point
PLANCK_CUDA_LIBRARY Result<void> quantize_learned_cuda(const Stream&, Workspace,
                                                       const QuantProblem&, const Operands&);
std::size_t quantize_learned_cuda_workspace(const QuantProblem&);

}  // namespace planck
