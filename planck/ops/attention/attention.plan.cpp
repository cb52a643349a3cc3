// The kernel tables of the attention family, one for each meaning of a product.

#include "planck/ops/attention/attention.math.h"
#include "planck/ops/attention/cpu/kernels.h"
#include "planck/ops/attention/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// Roundings of a product of n terms: an fma each, or five units of 2^-23 for 16 of them (TF32:
// three for 8, and both factors cut at 2^-10).
double roundings_of(const AttentionProblem& p, std::int64_t n) {
  if (p.math() == ProductMath::chain) return static_cast<double>(n);
  const bool tf32 = p.element_dtype == Dtype::f32;
  const double blocks = static_cast<double>((n + (tf32 ? 7 : 15)) / (tf32 ? 8 : 16));
  return tf32 ? 2 * 3 * blocks + 2 * 16384.0 : 2 * 5 * blocks;
}

// Relative to the largest |v| times 1 + the largest sum of magnitudes of a row's scores (backward:
// see attention.test.cpp): an error of a score moves p and the sum of p by as much. Each block of
// keys adds a factor; where p is rounded to 16 bits, that is half a unit of every term, and ds as
// much in backward.
PrecisionGuarantee guarantee(const AttentionProblem& p) {
  const double scores = roundings_of(p, std::max(p.width(), p.out_width()));
  const std::int64_t most = std::max(p.keys(), p.backward() ? p.queries() * p.in_group() : 0);
  const double blocks = static_cast<double>(most / attention_math::kBlock + 1);
  PrecisionGuarantee g =
      after_roundings(p.element_dtype, 2 * scores + roundings_of(p, most) + 4 * blocks + 16);
  if (p.math() == ProductMath::tensor_core && p.element_dtype != Dtype::f32)
    g.max_ulp += p.backward() ? 4 : 1;
  g.batch_invariant = true;  // a sequence sees nothing of another
  return g;
}

constexpr Kernel<AttentionProblem> kChain[] = {
    {"cuda:rows", kCuda, accept, attention_cuda_workspace, guarantee, attention_cuda},
    {"cpu:fma_chain", kCpu, accept, attention_cpu_workspace, guarantee, attention_cpu},
};
constexpr Kernel<AttentionProblem> kTensorCore[] = {
    {"cuda:rows", kCuda, accept, attention_cuda_workspace, guarantee, attention_cuda},
    {"cpu:integer_lanes", kCpu, accept, attention_cpu_workspace, guarantee, attention_cpu},
};

}  // namespace

std::span<const Kernel<AttentionProblem>> AttentionProblem::kernels() const {
  if (math() == ProductMath::tensor_core) return kTensorCore;
  return kChain;
}

}  // namespace planck
