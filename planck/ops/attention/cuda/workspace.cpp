// Workspaces of the CUDA kernels, also known to builds without CUDA.
#include "planck/ops/attention/cuda/kernels.h"

namespace planck {

std::size_t attention_cuda_workspace(const AttentionProblem& p) {
  if (!p.backward()) return 0;
  return bytes_for(compute_dtype(p.element_dtype), p.batch() * p.heads() * p.queries());
}

}  // namespace planck
