// The kernel tables of the reduce family.

#include "planck/math/running_sum.h"
#include "planck/ops/reduce/cpu/kernels.h"
#include "planck/ops/reduce/cuda/kernels.h"
#include "planck/ops/reduce/reduce.math.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

double running_depth(std::int64_t n) {
  double depth = 0;
  for (; n > 1; n = (n + kRunningChunk - 1) / kRunningChunk)
    depth += static_cast<double>(n < kRunningChunk ? n - 1 : kRunningChunk);
  return depth;
}

// Roundings of the compute type on the way to a result, relative to the sum of magnitudes, and the
// one at the store.
PrecisionGuarantee guarantee(const ReduceProblem& p) {
  if (!is_float(p.element_dtype))
    return {p.element_dtype, p.element_dtype, Reproducibility::cross_device, 0};
  const double depth = pairwise_depth(p.reduced());
  double roundings = depth;
  switch (p.kind) {
    case ReduceKind::mean:
      roundings = depth + 1;
      break;
    case ReduceKind::prod:
      roundings = static_cast<double>(p.reduced());
      break;
    case ReduceKind::var:
      // Within a chunk the mean's error counts twice, the square three times. A join rounds the
      // squares twice and each mean once, and what it adds is off by twice the means' errors and
      // six: less than three per level.
      roundings = 3 * depth + 6;
      break;
    case ReduceKind::logsumexp: {  // of two sums that are joined, one is scaled by an exp
      constexpr std::int64_t kChunk = reduce_math::kStatChunk;
      roundings = depth + pairwise_depth((p.reduced() + kChunk - 1) / kChunk) + 8;
      break;
    }
    case ReduceKind::cumsum:
      roundings = running_depth(p.reduced());
      break;
    case ReduceKind::sum:
      break;
    default:
      roundings = 0;
  }
  return after_roundings(p.element_dtype, roundings);
}

using Row = Kernel<ReduceProblem>;
constexpr Row kReduce[] = {
    {"cuda:tree", kCuda, accept, reduce_cuda_workspace, guarantee, reduce_cuda},
    {"cpu:tree", kCpu, accept, reduce_cpu_workspace, guarantee, reduce_cpu},
};
constexpr Row kCumsum[] = {
    {"cuda:running", kCuda, accept, no_workspace, guarantee, cumsum_cuda},
    {"cpu:running", kCpu, accept, cumsum_cpu_workspace, guarantee, cumsum_cpu},
};
constexpr Row kRunningExtreme[] = {
    {"cuda:running", kCuda, accept, no_workspace, guarantee, running_extreme_cuda},
    {"cpu:running", kCpu, accept, no_workspace, guarantee, running_extreme_cpu},
};

}  // namespace

std::span<const Kernel<ReduceProblem>> ReduceProblem::kernels() const {
  if (scans_extremes()) return kRunningExtreme;
  if (scans()) return kCumsum;
  return kReduce;
}

}  // namespace planck
