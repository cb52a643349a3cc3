// The kernel table of the matmul family, best first: what promises the same bits everywhere, then
// the libraries, for who asks for them by name.
#include <cmath>

#include "planck/ops/matmul/kernels.h"
#include "planck/ops/matmul/matmul.cuda.h"

namespace planck {

namespace {

std::string accept(const MatmulProblem&) { return ""; }
std::size_t no_workspace(const MatmulProblem&) { return 0; }

// One rounding of the compute type for each product, and the one at the store.
PrecisionGuarantee promise(const MatmulProblem& p, double roundings,
                           Reproducibility reproducibility) {
  if (p.element_dtype == Dtype::s8)
    return {Dtype::i32, Dtype::i32, Reproducibility::cross_device, 0};
  const Dtype compute = compute_dtype(p.element_dtype);
  double max_ulp = roundings;
  if (compute != p.element_dtype) {  // in hundredths, rounded up
    const double finer = p.element_dtype == Dtype::f16 ? 0x1p-13 : 0x1p-16;
    max_ulp = 0.5 + std::ceil(100 * roundings * finer) / 100;
  }
  return {compute, compute, reproducibility, max_ulp};
}

PrecisionGuarantee guarantee(const MatmulProblem& p) {
  return promise(p, static_cast<double>(p.k), Reproducibility::cross_device);
}

// Any order of additions, products perhaps rounded too. Tensor cores cut what they add: twice as
// much a step.
PrecisionGuarantee guarantee_library(const MatmulProblem& p) {
  return promise(p, 2 * static_cast<double>(p.k), Reproducibility::run_to_run);
}

// A build without CUDA keeps the rows and launches none of them.
#if defined(PLANCK_WITH_CUDA)
#define PLANCK_CUDA_LAUNCH(function) function
#else
#define PLANCK_CUDA_LAUNCH(function) nullptr
#endif

constexpr DeviceKind kCpu = DeviceKind::cpu, kCuda = DeviceKind::cuda;

constexpr Kernel<MatmulProblem> kMatmul[] = {
    {"cuda:fma_chain", kCuda, accept, no_workspace, guarantee, PLANCK_CUDA_LAUNCH(matmul_cuda)},
    {"cuda:cublaslt", kCuda, matmul_cublaslt_refusal, matmul_cublaslt_workspace, guarantee_library,
     PLANCK_CUDA_LAUNCH(matmul_cublaslt)},
    {"cpu:fma_chain", kCpu, accept, matmul_cpu_workspace, guarantee, matmul_cpu},
    {"cpu:openblas", kCpu, matmul_openblas_refusal, matmul_openblas_workspace, guarantee_library,
     matmul_openblas},
};

}  // namespace

std::span<const Kernel<MatmulProblem>> MatmulProblem::kernels() const { return kMatmul; }

}  // namespace planck
