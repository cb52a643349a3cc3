// grid_sample_backward of f16 tensors.
#include "planck/ops/grid_sample/cuda/backward.cuh"
#include "planck/ops/grid_sample/cuda/launchers.h"

namespace planck::sample_device {

Result<void> backward_f16(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                          const Operands& o) {
  return launch_backward<f16>(stream, workspace, p, o);
}

}  // namespace planck::sample_device
