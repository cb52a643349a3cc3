// The kernel table of the matmul family, best first: what promises the same bits everywhere, then
// the libraries, which are used on request by name.

#include "planck/ops/matmul/cpu/kernels.h"
#include "planck/ops/matmul/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// One rounding of the compute type for each product, and the one at the store.
PrecisionGuarantee promise(const MatmulProblem& p, double roundings,
                           Reproducibility reproducibility) {
  if (p.element_dtype == Dtype::s8)
    return {Dtype::i32, Dtype::i32, Reproducibility::cross_device, 0};
  return after_roundings(p.element_dtype, roundings, reproducibility);
}

PrecisionGuarantee guarantee(const MatmulProblem& p) {
  return promise(p, static_cast<double>(p.k), Reproducibility::cross_device);
}

// Any order of additions, products perhaps rounded too. Tensor cores truncate what they add: up to
// twice the error per step.
PrecisionGuarantee guarantee_library(const MatmulProblem& p) {
  return promise(p, 2 * static_cast<double>(p.k), Reproducibility::run_to_run);
}

constexpr Kernel<MatmulProblem> kMatmul[] = {
    {"cuda:fma_chain", kCuda, accept, no_workspace, guarantee, matmul_cuda},
    {"cuda:cublaslt", kCuda, matmul_cublaslt_refusal, matmul_cublaslt_workspace, guarantee_library,
     matmul_cublaslt},
    {"cpu:fma_chain", kCpu, accept, matmul_cpu_workspace, guarantee, matmul_cpu},
    {"cpu:openblas", kCpu, matmul_openblas_refusal, matmul_openblas_workspace, guarantee_library,
     matmul_openblas},
};

}  // namespace

std::span<const Kernel<MatmulProblem>> MatmulProblem::kernels() const { return kMatmul; }

}  // namespace planck
