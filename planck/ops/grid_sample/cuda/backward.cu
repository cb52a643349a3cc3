// grid_sample_backward, "cuda:sorted_cells".
#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/grid_sample/grid_sample.cuda.h"
#include "planck/ops/grid_sample/cuda/launchers.h"

namespace planck {

Result<void> grid_sample_backward_cuda(const Stream& stream, Workspace workspace,
                                       const GridSampleProblem& p, const Operands& o) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  switch (p.dtype) {
    case Dtype::f64:
      return sample_device::backward_f64(stream, workspace, p, o);
    case Dtype::f16:
      return sample_device::backward_f16(stream, workspace, p, o);
    case Dtype::bf16:
      return sample_device::backward_bf16(stream, workspace, p, o);
    default:
      return sample_device::backward_f32(stream, workspace, p, o);
  }
}

}  // namespace planck
