// How the CUDA reductions are cut, which builds without CUDA know too.
#include <algorithm>

#include "planck/ops/reduce/cuts.h"
#include "planck/ops/reduce/reduce.cuda.h"

namespace planck {

std::size_t reduce_cuda_workspace(const ReduceProblem& p) {
  const std::int64_t groups = p.outputs(), length = p.reduced();
  if (groups == 0 || length == 0) return 0;
  const bool wide = p.element_dtype == Dtype::f64 || p.element_dtype == Dtype::i64;
  const std::size_t value = p.finds() ? 16 : wide ? 8 : 4;
  const std::int64_t partials = reduce_cuts::partials(groups, length);
  const bool twice = p.kind == ReduceKind::var || p.kind == ReduceKind::logsumexp;
  const auto aligned = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  return aligned(static_cast<std::size_t>(partials) * value) +
         (twice ? aligned(static_cast<std::size_t>(groups) * value) : 0);
}

}  // namespace planck
