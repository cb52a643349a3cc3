// The kernel table of the pool family, best first.
#include <algorithm>
#include <cmath>

#include "planck/ops/pool/cpu/kernels.h"
#include "planck/ops/pool/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

std::string pool_pairs_refusal(const PoolProblem& p) {
  if (p.element_dtype == Dtype::s8) return "computes floats, x is s8";
  for (const PoolAxis& a : {p.axes().rows, p.axes().columns})
    if (a.kernel != 2 || a.stride != 2 || a.padding != 0 || a.dilation != 1 || a.out != a.in / 2)
      return "serves whole windows of 2 x 2 side by side";
  return "";
}

namespace {

// The most windows or pixels that meet in one element, along an axis.
double most_terms(const PoolAxis& a, bool backward) {
  const auto up = [](std::int64_t n, std::int64_t d) {
    return static_cast<double>((n + d - 1) / d);
  };
  if (a.kernel == 0) return backward ? up(a.out, a.in) + 1 : up(a.in, a.out) + 1;
  return backward ? up(a.dilation * (a.kernel - 1) + 1, a.stride)
                  : static_cast<double>(std::min(a.kernel, a.in));
}

// Relative to the sum of the magnitudes: one addition per term and the division. Largest pixels are
// exact, and so is the gradient of one where windows do not overlap.
PrecisionGuarantee guarantee(const PoolProblem& p) {
  if (p.element_dtype == Dtype::s8) return {Dtype::s8, Dtype::s8, Reproducibility::cross_device, 0};
  if (p.kind == PoolKind::max_pool2d) return after_roundings(p.element_dtype, 0);
  const PoolAxes a = p.axes();
  const double terms = most_terms(a.rows, p.backward()) * most_terms(a.columns, p.backward());
  return after_roundings(p.element_dtype, p.largest() && terms == 1 ? 0 : terms + 1);
}

constexpr Kernel<PoolProblem> kKernels[] = {
    {"cuda:direct", kCuda, accept, no_workspace, guarantee, pool_cuda},
    {"cpu:pairs", kCpu, pool_pairs_refusal, no_workspace, guarantee, pool_pairs_cpu},
    {"cpu:taps", kCpu, pool_taps_refusal, no_workspace, guarantee, pool_taps_cpu},
    {"cpu:rows", kCpu, accept, no_workspace, guarantee, pool_rows_cpu},
};

}  // namespace

std::span<const Kernel<PoolProblem>> PoolProblem::kernels() const { return kKernels; }

}  // namespace planck
