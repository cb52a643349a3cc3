// Workspace of the CUDA kernels, also known to builds without CUDA.
#include "planck/ops/grid_sample/grid_sample.cuda.h"

namespace planck {

std::size_t grid_sample_cuda_workspace(const GridSampleProblem&) { return 0; }
std::size_t grid_sample_backward_cuda_workspace(const GridSampleProblem&) { return 0; }
std::size_t grid_sample_backward_atomic_cuda_workspace(const GridSampleProblem&) { return 0; }
std::size_t affine_grid_cuda_workspace(const AffineGridProblem&) { return 0; }

}  // namespace planck
