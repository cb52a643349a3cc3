// Workspace of the CUDA kernels, also known to builds without CUDA.
#include "planck/ops/quantize/kernels.h"

namespace planck {

std::size_t quantize_cuda_workspace(const QuantProblem&) { return 0; }

}  // namespace planck
