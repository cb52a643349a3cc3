// grid_sample_backward of bf16 tensors.
#include "planck/ops/grid_sample/cuda/backward.cuh"
#include "planck/ops/grid_sample/cuda/launchers.h"

namespace planck::sample_device {

Result<void> backward_bf16(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                           const Operands& o) {
  return launch_backward<bf16>(stream, workspace, p, o);
}

}  // namespace planck::sample_device
