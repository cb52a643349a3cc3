// grid_sample_backward of bf16 tensors, 2-D bilinear.
#include "planck/ops/grid_sample/cuda/tiles.launch.cuh"

namespace planck::sample_device {

template Result<void> launch_tiles<bf16>(const Stream&, Workspace, const GridSampleProblem&,
                                         const Operands&, const BinLayout&, const BinCall&, bool&);

}  // namespace planck::sample_device
