// grid_sample_backward, "cuda:sorted_cells".
#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/grid_sample/cuda/kernels.h"
#include "planck/ops/grid_sample/cuda/launchers.cuh"

namespace planck {

Result<void> grid_sample_backward_cuda(const Stream& stream, Workspace workspace,
                                       const GridSampleProblem& p, const Operands& o) {
  using namespace sample_device;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  switch (p.dtype) {
    case Dtype::f64:
      return launch_backward<double>(stream, workspace, p, o);
    case Dtype::f16:
      return launch_backward<f16>(stream, workspace, p, o);
    case Dtype::bf16:
      return launch_backward<bf16>(stream, workspace, p, o);
    default:
      return launch_backward<float>(stream, workspace, p, o);
  }
}

}  // namespace planck
