// grid_sample_backward of f64 tensors.
#include "planck/ops/grid_sample/cuda/backward.cuh"
#include "planck/ops/grid_sample/cuda/launchers.h"

namespace planck::sample_device {

// For the atomic kernel as well.
template Result<void> launch_dgrid<double>(const Stream&, const GridSampleProblem&,
                                           const Operands&);

Result<void> backward_f64(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                          const Operands& o) {
  return launch_backward<double>(stream, workspace, p, o);
}

}  // namespace planck::sample_device
