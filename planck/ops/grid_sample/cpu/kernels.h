// The CPU kernels of the grid_sample family. Each serves every mode, padding, dtype and stride
// pattern of its op; operands have been checked against the problem.
#pragma once

#include "planck/ops/grid_sample/grid_sample.problem.h"

namespace planck {

// grid_sample, cpu:channels_last and cpu:direct
Result<void> grid_sample_channels_last_cpu(const Stream&, Workspace, const GridSampleProblem&,
                                           const Operands&);
std::size_t grid_sample_channels_last_cpu_workspace(const GridSampleProblem&);
Result<void> grid_sample_direct_cpu(const Stream&, Workspace, const GridSampleProblem&,
                                    const Operands&);
std::size_t grid_sample_direct_cpu_workspace(const GridSampleProblem&);

// grid_sample_backward, cpu:sorted_cells
Result<void> grid_sample_backward_cpu(const Stream&, Workspace, const GridSampleProblem&,
                                      const Operands&);
std::size_t grid_sample_backward_cpu_workspace(const GridSampleProblem&);

// affine_grid and affine_grid_backward, cpu:direct
Result<void> affine_grid_cpu(const Stream&, Workspace, const AffineGridProblem&, const Operands&);
std::size_t affine_grid_cpu_workspace(const AffineGridProblem&);

}  // namespace planck
