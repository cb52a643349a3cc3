// The kernel table of the norm family.
#include <algorithm>
#include <cmath>

#include "planck/ops/norm/kernels.h"

namespace planck {

namespace {

std::string accept(const NormProblem&) { return ""; }

// Relative to the largest magnitude among the terms of a result.
PrecisionGuarantee guarantee(const NormProblem& p) {
  const Dtype compute = compute_dtype(p.element_dtype);
  double depth = 0;
  for (std::int64_t n = std::max(p.length(), p.backward() ? p.rows() : 1); n > 1; n = (n + 1) / 2)
    ++depth;
  const double roundings = 2 * depth + 10;
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

constexpr Kernel<NormProblem> kRows[] = {
    {"cuda:rows", DeviceKind::cuda, accept, norm_cuda_workspace, guarantee,
     PLANCK_CUDA_LAUNCH(norm_cuda)},
    {"cpu:rows", DeviceKind::cpu, accept, norm_cpu_workspace, guarantee, norm_cpu},
};

}  // namespace

std::span<const Kernel<NormProblem>> NormProblem::kernels() const { return kRows; }

// Two sums for each chunk and column.
std::size_t norm_cuda_workspace(const NormProblem& p) {
  if (!p.backward() || !(p.weighted || p.biased) || norm_chunks(p) <= 1) return 0;
  const std::size_t value = p.element_dtype == Dtype::f64 ? 8 : 4;
  return 2 * static_cast<std::size_t>(norm_chunks(p) * p.length()) * value;
}
std::size_t norm_cpu_workspace(const NormProblem& p) { return norm_cuda_workspace(p); }

}  // namespace planck
