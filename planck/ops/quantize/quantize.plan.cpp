// The kernel tables of the quantize family, best first.
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

// Every granularity, dtype and layout, by what the op is.
constexpr Kernel<QuantProblem> kElementwise[] = {
    {"cuda:vector", kCuda, accept, no_workspace, guarantee, quantize_vector_cuda},
    {"cuda:strided", kCuda, accept, no_workspace, guarantee, quantize_strided_cuda},
    {"cpu:simd", kCpu, quantize_simd_cpu_refusal, no_workspace, guarantee, quantize_simd_cpu},
    {"cpu:plain", kCpu, accept, no_workspace, guarantee, quantize_plain_cpu},
};
constexpr Kernel<QuantProblem> kDynamic[] = {
    {"cuda:dynamic", kCuda, accept, quantize_dynamic_cuda_workspace, guarantee,
     quantize_dynamic_cuda},
    {"cpu:dynamic", kCpu, accept, quantize_dynamic_cpu_workspace, guarantee, quantize_dynamic_cpu},
};
constexpr Kernel<QuantProblem> kLearned[] = {
    {"cuda:learned", kCuda, accept, quantize_learned_cuda_workspace, guarantee,
     quantize_learned_cuda},
    {"cpu:learned", kCpu, accept, quantize_learned_cpu_workspace, guarantee, quantize_learned_cpu},
};

}  // namespace

std::span<const Kernel<QuantProblem>> QuantProblem::kernels() const {
  if (kind == QuantKind::dynamic_quantize) return kDynamic;
  if (kind == QuantKind::fake_quantize_backward && learnable) return kLearned;
  return kElementwise;
}

}  // namespace planck
