// The kernel table of the softmax family.
#include <cmath>

#include "planck/ops/softmax/kernels.h"

namespace planck {

namespace {

std::string accept(const SoftmaxProblem&) { return ""; }
std::size_t no_workspace(const SoftmaxProblem&) { return 0; }

// Relative to the largest magnitude among the terms: the sum's depth, exp, log and a few
// operations.
PrecisionGuarantee guarantee(const SoftmaxProblem& p) {
  const Dtype compute = compute_dtype(p.element_dtype);
  double roundings = 8;
  for (std::int64_t n = p.length(); n > 1; n = (n + 1) / 2) ++roundings;
  if (compute == p.element_dtype)
    return {compute, compute, Reproducibility::cross_device, roundings};
  const double finer = p.element_dtype == Dtype::f16 ? 0x1p-13 : 0x1p-16;
  return {compute, compute, Reproducibility::cross_device,
          0.5 + std::ceil(100 * roundings * finer) / 100};
}

#if defined(PLANCK_WITH_CUDA)
#define PLANCK_CUDA_LAUNCH(function) function
#else
#define PLANCK_CUDA_LAUNCH(function) nullptr
#endif

constexpr Kernel<SoftmaxProblem> kRows[] = {
    {"cuda:rows", DeviceKind::cuda, accept, no_workspace, guarantee,
     PLANCK_CUDA_LAUNCH(softmax_cuda)},
    {"cpu:rows", DeviceKind::cpu, accept, no_workspace, guarantee, softmax_cpu},
};

}  // namespace

std::span<const Kernel<SoftmaxProblem>> SoftmaxProblem::kernels() const { return kRows; }

}  // namespace planck
