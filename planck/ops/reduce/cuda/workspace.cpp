// How the CUDA reductions are cut, which builds without CUDA know too.
#include "planck/ops/reduce/cuda/cuts.h"
#include "planck/ops/reduce/cuda/kernels.h"

namespace planck {

std::size_t reduce_cuda_workspace(const ReduceProblem& p) {
  const std::int64_t groups = p.outputs(), length = p.reduced();
  if (groups == 0 || length == 0) return 0;
  const bool wide = p.element_dtype == Dtype::f64 || p.element_dtype == Dtype::i64;
  const std::size_t value = p.finds() ? 16 : wide ? 8 : 4;
  const bool in_chunks = p.kind == ReduceKind::var || p.kind == ReduceKind::logsumexp;
  const std::int64_t values = in_chunks ? 2 * reduce_cuts::chunk_nodes(groups, length)
                                        : reduce_cuts::partials(groups, length);
  return (static_cast<std::size_t>(values) * value + 255) / 256 * 256;
}

}  // namespace planck
