// The kernel table of the quantize family, best first.
#include "planck/ops/quantize/cpu/kernels.h"
#include "planck/ops/quantize/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// Everything is elementwise but the sums of dscale and dzero_point.
PrecisionGuarantee guarantee(const QuantProblem& p) {
  const Dtype compute = compute_dtype(p.element_dtype);
  double max_ulp = 0;  // integers are the formula's own; dx and dq are correctly rounded
  if (p.kind == QuantKind::dequantize || p.kind == QuantKind::fake_quantize)
    max_ulp = 1;  // q − z is rounded once more where a zero point is far out of the dtype's range
  if (p.learnable) {
    // Two roundings per term and one per level of the tree, of the sum of magnitudes.
    max_ulp = 3 + pairwise_depth(p.map().members());
  }
  return {compute, compute, Reproducibility::cross_device, max_ulp};
}

constexpr Kernel<QuantProblem> kTable[] = {
    {"cuda:vector", kCuda, accept, quantize_cuda_workspace, guarantee, quantize_cuda},
    {"cpu:simd", kCpu, accept, quantize_cpu_workspace, guarantee, quantize_cpu},
};

}  // namespace

std::span<const Kernel<QuantProblem>> QuantProblem::kernels() const { return kTable; }

}  // namespace planck
