// grid_sample_backward of f32 tensors.
#include "planck/ops/grid_sample/cuda/backward.cuh"
#include "planck/ops/grid_sample/cuda/launchers.h"

namespace planck::sample_device {

// For the atomic kernel as well.
template Result<void> launch_dgrid<float>(const Stream&, const GridSampleProblem&, const Operands&);

Result<void> backward_f32(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                          const Operands& o) {
  return launch_backward<float>(stream, workspace, p, o);
}

}  // namespace planck::sample_device
