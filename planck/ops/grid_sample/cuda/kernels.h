// The CUDA kernels of the grid_sample family, as host code sees them. Operands have been checked
// against the problem: dtypes, shapes, no overlap; strides are arbitrary. Workspace sizes are also
// known to builds without CUDA (workspace.cpp).
#pragma once

#include "planck/ops/grid_sample/grid_sample.problem.h"

namespace planck {

// grid_sample, cuda:direct, and cuda:direct:no_copy for callers without workspace for a copy of the
// input
PLANCK_CUDA_LIBRARY Result<void> grid_sample_cuda(const Stream&, Workspace,
                                                  const GridSampleProblem&, const Operands&);
std::size_t grid_sample_cuda_workspace(const GridSampleProblem&);
PLANCK_CUDA_LIBRARY Result<void> grid_sample_no_copy_cuda(const Stream&, Workspace,
                                                          const GridSampleProblem&,
                                                          const Operands&);
std::size_t grid_sample_no_copy_cuda_workspace(const GridSampleProblem&);

// grid_sample_backward, cuda:sorted_cells; refusal: why it cannot serve, "" where it can
std::string grid_sample_backward_cuda_refusal(const GridSampleProblem&);
PLANCK_CUDA_LIBRARY Result<void> grid_sample_backward_cuda(const Stream&, Workspace,
                                                           const GridSampleProblem&,
                                                           const Operands&);
std::size_t grid_sample_backward_cuda_workspace(const GridSampleProblem&);

// grid_sample_backward, cuda:atomic; f32 and f64
PLANCK_CUDA_LIBRARY Result<void> grid_sample_backward_atomic_cuda(const Stream&, Workspace,
                                                                  const GridSampleProblem&,
                                                                  const Operands&);
std::size_t grid_sample_backward_atomic_cuda_workspace(const GridSampleProblem&);

// affine_grid and affine_grid_backward, cuda:direct
PLANCK_CUDA_LIBRARY Result<void> affine_grid_cuda(const Stream&, Workspace,
                                                  const AffineGridProblem&, const Operands&);
std::size_t affine_grid_cuda_workspace(const AffineGridProblem&);

}  // namespace planck
