// The CPU kernels of the matmul family. Operands have been checked against the problem.
#pragma once

#include "planck/ops/matmul/matmul.problem.h"

namespace planck {

// cpu:fma_chain; every dtype, any strides
Result<void> matmul_cpu(const Stream&, Workspace, const MatmulProblem&, const Operands&);
std::size_t matmul_cpu_workspace(const MatmulProblem&);

// cpu:integer_lanes; bf16, f16, f32 as TF32; any strides
Result<void> matmul_tensor_core_cpu(const Stream&, Workspace, const MatmulProblem&,
                                    const Operands&);
std::size_t matmul_tensor_core_cpu_workspace(const MatmulProblem&);

// cpu:exact_amx, cpu:exact_vnni, cpu:exact_f64; f32, any strides; the same bits
std::string matmul_exact_amx_refusal(const MatmulProblem&);
Result<void> matmul_exact_amx(const Stream&, Workspace, const MatmulProblem&, const Operands&);
std::size_t matmul_exact_amx_workspace(const MatmulProblem&);
std::string matmul_exact_vnni_refusal(const MatmulProblem&);
Result<void> matmul_exact_vnni(const Stream&, Workspace, const MatmulProblem&, const Operands&);
std::size_t matmul_exact_vnni_workspace(const MatmulProblem&);
Result<void> matmul_exact_f64(const Stream&, Workspace, const MatmulProblem&, const Operands&);
std::size_t matmul_exact_f64_workspace(const MatmulProblem&);

// cpu:amx, cpu:vnni; s8, any strides
std::string matmul_amx_refusal(const MatmulProblem&);
Result<void> matmul_amx(const Stream&, Workspace, const MatmulProblem&, const Operands&);
std::size_t matmul_amx_workspace(const MatmulProblem&);
std::string matmul_vnni_refusal(const MatmulProblem&);
Result<void> matmul_vnni(const Stream&, Workspace, const MatmulProblem&, const Operands&);
std::size_t matmul_vnni_workspace(const MatmulProblem&);

// cpu:openblas; floats
std::string matmul_openblas_refusal(const MatmulProblem&);
Result<void> matmul_openblas(const Stream&, Workspace, const MatmulProblem&, const Operands&);
std::size_t matmul_openblas_workspace(const MatmulProblem&);

}  // namespace planck
