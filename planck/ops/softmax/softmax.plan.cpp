// The kernel table of the softmax family.

#include "planck/ops/softmax/cpu/kernels.h"
#include "planck/ops/softmax/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// Relative to the largest magnitude among the terms: the sum's depth, exp, log and a few
// operations.
PrecisionGuarantee guarantee(const SoftmaxProblem& p) {
  return after_roundings(p.element_dtype, 8 + pairwise_depth(p.length()));
}

constexpr Kernel<SoftmaxProblem> kRows[] = {
    {"cuda:rows", kCuda, accept, no_workspace, guarantee, softmax_cuda},
    {"cpu:rows", kCpu, accept, no_workspace, guarantee, softmax_cpu},
};

}  // namespace

std::span<const Kernel<SoftmaxProblem>> SoftmaxProblem::kernels() const { return kRows; }

}  // namespace planck
