// The CUDA kernels of the index family, as host code sees them. Operands have been checked against
// the problem; strides are arbitrary. Workspace sizes are also known to builds without CUDA.
#pragma once

#include "planck/ops/index/index.problem.h"

namespace planck {

// gather, index_select: cuda:gather
PLANCK_CUDA_LIBRARY Result<void> index_read_cuda(const Stream&, Workspace, const IndexProblem&,
                                                 const Operands&);

// scatter: cuda:winners
PLANCK_CUDA_LIBRARY Result<void> index_scatter_cuda(const Stream&, Workspace, const IndexProblem&,
                                                    const Operands&);
std::size_t index_scatter_cuda_workspace(const IndexProblem&);
std::string index_scatter_cuda_refusal(const IndexProblem&);

// scatter_add, index_add of integers: cuda:integer_atomics
PLANCK_CUDA_LIBRARY Result<void> index_integer_sums_cuda(const Stream&, Workspace,
                                                         const IndexProblem&, const Operands&);

// scatter_add, index_add of floats along short axes: cuda:lines
PLANCK_CUDA_LIBRARY Result<void> index_line_sums_cuda(const Stream&, Workspace, const IndexProblem&,
                                                      const Operands&);
std::string index_line_sums_cuda_refusal(const IndexProblem&);

// scatter_add, index_add of floats: cuda:sorted_rows
PLANCK_CUDA_LIBRARY Result<void> index_sums_cuda(const Stream&, Workspace, const IndexProblem&,
                                                 const Operands&);
std::size_t index_sums_cuda_workspace(const IndexProblem&);
std::string index_sums_cuda_refusal(const IndexProblem&);

// mask_select, mask_scatter, nonzero: cuda:ranks
PLANCK_CUDA_LIBRARY Result<void> index_masks_cuda(const Stream&, Workspace, const IndexProblem&,
                                                  const Operands&);
std::size_t index_masks_cuda_workspace(const IndexProblem&);

// one_hot: cuda:classes
PLANCK_CUDA_LIBRARY Result<void> index_one_hot_cuda(const Stream&, Workspace, const IndexProblem&,
                                                    const Operands&);

}  // namespace planck
