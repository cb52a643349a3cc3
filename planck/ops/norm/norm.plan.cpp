// The kernel table of the norm family.
#include <algorithm>
#include <cmath>

#include "planck/ops/norm/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// Relative to the largest magnitude among the terms of a result.
PrecisionGuarantee guarantee(const NormProblem& p) {
  const double depth = pairwise_depth(std::max(p.length(), p.backward() ? p.rows() : 1));
  return after_roundings(p.element_dtype, 2 * depth + 10);
}

constexpr Kernel<NormProblem> kRows[] = {
    {"cuda:rows", kCuda, accept, norm_cuda_workspace, guarantee, PLANCK_CUDA_LAUNCH(norm_cuda)},
    {"cpu:rows", kCpu, accept, norm_cpu_workspace, guarantee, norm_cpu},
};

}  // namespace

std::span<const Kernel<NormProblem>> NormProblem::kernels() const { return kRows; }

// Two sums for each chunk and column.
namespace {
std::size_t partials(const NormProblem& p, std::int64_t chunks) {
  if (!p.backward() || !(p.weighted || p.biased)) return 0;
  const std::size_t value = p.element_dtype == Dtype::f64 ? 8 : 4;
  return 2 * static_cast<std::size_t>(chunks * p.length()) * value;
}
}  // namespace

std::size_t norm_cuda_workspace(const NormProblem& p) { return partials(p, fused_chunks(p)); }
std::size_t norm_cpu_workspace(const NormProblem& p) {
  const std::int64_t chunks = (p.rows() + kCpuFusedRows - 1) / kCpuFusedRows;
  return chunks <= 1 ? 0 : partials(p, chunks);
}

}  // namespace planck
