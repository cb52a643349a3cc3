// The CUDA kernels of the matmul family, as host code sees them. Workspace sizes are also known to
// builds without CUDA.
#pragma once

#include "planck/ops/matmul/matmul.problem.h"

namespace planck {

// cuda:fma_chain; every dtype, any strides, no workspace
PLANCK_CUDA_LIBRARY Result<void> matmul_cuda(const Stream&, Workspace, const MatmulProblem&,
                                             const Operands&);

// cuda:cublaslt; floats
std::string matmul_cublaslt_refusal(const MatmulProblem&);
PLANCK_CUDA_LIBRARY Result<void> matmul_cublaslt(const Stream&, Workspace, const MatmulProblem&,
                                                 const Operands&);
std::size_t matmul_cublaslt_workspace(const MatmulProblem&);

// Where the parts of cuda:cublaslt's workspace begin, in bytes: dense copies of A, B and C, and
// what the library itself may use.
struct CublasltLayout {
  std::size_t a, b, c, own, bytes;
  explicit CublasltLayout(const MatmulProblem&);
  static constexpr std::size_t kOwn = std::size_t{32} << 20;
};

}  // namespace planck
