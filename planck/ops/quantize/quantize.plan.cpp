// The kernel table of the quantize family, best first.
#include "planck/ops/quantize/kernels.h"

namespace planck {

namespace {

std::string accept(const QuantProblem&) { return ""; }

// Everything is elementwise but the sums of dscale and dzero_point.
PrecisionGuarantee guarantee(const QuantProblem& p) {
  const Dtype compute = compute_dtype(p.element_dtype);
  double max_ulp = 0;  // integers are the formula's own; dx and dq are correctly rounded
  if (p.kind == QuantKind::dequantize || p.kind == QuantKind::fake_quantize)
    max_ulp = 1;  // q − z is rounded once more where a zero point is far out of the dtype's range
  if (p.learnable) {  // two roundings in a term, one at each level of the tree, of the sum of
                      // magnitudes
    max_ulp = 3;
    for (std::int64_t n = p.map().members(); n > 1; n = (n + 1) / 2) max_ulp += 1;
  }
  return {compute, compute, Reproducibility::cross_device, max_ulp};
}

constexpr Kernel<QuantProblem> kTable[] = {
#if defined(PLANCK_WITH_CUDA)
    {"cuda:vector", DeviceKind::cuda, accept, quantize_cuda_workspace, guarantee, quantize_cuda},
#else
    {"cuda:vector", DeviceKind::cuda, accept, quantize_cuda_workspace, guarantee, nullptr},
#endif
    {"cpu:simd", DeviceKind::cpu, accept, quantize_cpu_workspace, guarantee, quantize_cpu},
};

}  // namespace

std::span<const Kernel<QuantProblem>> QuantProblem::kernels() const { return kTable; }

}  // namespace planck
