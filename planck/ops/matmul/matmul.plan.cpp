// The kernel tables of the matmul family, one for each meaning of a product, best first: what
// promises the same bits everywhere, then the libraries, which are used on request by name.

#include "planck/loops/gemm/cuda/follows.h"
#include "planck/ops/matmul/cpu/kernels.h"
#include "planck/ops/matmul/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// One rounding of the compute type for each product, and the one at the store.
PrecisionGuarantee promise(const MatmulProblem& p, double roundings,
                           Reproducibility reproducibility) {
  PrecisionGuarantee g = after_roundings(p.element_dtype, roundings, reproducibility);
  if (p.element_dtype == Dtype::s8) g = {Dtype::i32, Dtype::i32, Reproducibility::cross_device, 0};
  if (p.bias) g.max_ulp += 1;  // the sum with it is rounded, too
  // No slope is above 1.13; what the functions themselves are off by, and a rounding.
  if (p.activation != Activation::none) g.max_ulp = 1.13 * g.max_ulp + 6;
  if (p.residual) g.max_ulp += 1;
  // A row of C is a sum of its own row of A.
  g.batch_invariant = g.reproducibility == Reproducibility::cross_device;
  return g;
}

PrecisionGuarantee guarantee_chain(const MatmulProblem& p) {
  return promise(p, static_cast<double>(p.k), Reproducibility::cross_device);
}

// A block of 16 (TF32: 8) cuts each of its terms below 2^-25 of the largest, and its sum to f32:
// less than 17 · 2^-25 + 2^-23, five units of 2^-23 at most. TF32 cuts both factors at 2^-10
// before that.
PrecisionGuarantee guarantee_tensor_core(const MatmulProblem& p) {
  const bool tf32 = p.element_dtype == Dtype::f32;
  const double blocks = static_cast<double>((p.k + (tf32 ? 7 : 15)) / (tf32 ? 8 : 16));
  return promise(p, 5 * 2 * blocks + (tf32 ? 2 * 16384.0 : 0), Reproducibility::cross_device);
}

// Any order of additions, products perhaps rounded too. Tensor cores truncate what they add: up to
// twice the error per step.
PrecisionGuarantee guarantee_library(const MatmulProblem& p) {
  return promise(p, 2 * static_cast<double>(p.k), Reproducibility::run_to_run);
}

// Both factors of a product are off by half a unit of 2^-22 of less than twice the largest: 8
// units of 2^-23 of the product of the largest, and the last rounding.
PrecisionGuarantee guarantee_exact(const MatmulProblem& p) {
  PrecisionGuarantee g = promise(p, 9, Reproducibility::cross_device);
  g.by_norms = p.element_dtype != Dtype::s8;
  return g;
}

// The library multiplies alone.
std::string cublaslt_refusal(const MatmulProblem& p) {
  return p.multiplies_alone() ? matmul_cublaslt_refusal(p)
                              : "multiplies alone, and a bias, an activation or a residual follows";
}

using gemm_device::Instruction;

// Strides that the copy engine does not take are left to mma.sync, which is asked here: run() then
// finds the answer.
std::string follows(const MatmulProblem& p, Device device) {
  if (p.element_dtype != Dtype::f32)
    (void)gemm_device::probed(device, p.element_dtype, Instruction::mma_sync);
  return gemm_device::unfaithful(device, p.element_dtype, Instruction::wgmma);
}

// Bytes are exact on any.
std::string follows_mma_sync(const MatmulProblem& p, Device device) {
  const std::string absent = gemm_device::absent(device, Instruction::mma_sync);
  if (!absent.empty() || p.element_dtype == Dtype::s8) return absent;
  return gemm_device::unfaithful(device, p.element_dtype, Instruction::mma_sync);
}

constexpr Kernel<MatmulProblem> kChain[] = {
    {"cuda:fma_chain", kCuda, accept, no_workspace, guarantee_chain, matmul_cuda},
    {"cuda:cublaslt", kCuda, cublaslt_refusal, matmul_cublaslt_workspace, guarantee_library,
     matmul_cublaslt},
    {"cpu:fma_chain", kCpu, accept, matmul_cpu_workspace, guarantee_chain, matmul_cpu},
    {"cpu:openblas", kCpu, matmul_openblas_refusal, matmul_openblas_workspace, guarantee_library,
     matmul_openblas},
};

constexpr Kernel<MatmulProblem> kTensorCore[] = {
    {"cuda:warpgroups", kCuda, matmul_warpgroups_refusal, matmul_warpgroups_workspace,
     guarantee_tensor_core, matmul_warpgroups, 90, follows},
    {"cuda:mma_sync", kCuda, matmul_mma_sync_refusal, no_workspace, guarantee_tensor_core,
     matmul_mma_sync, 0, follows_mma_sync},
    {"cuda:integer_lanes", kCuda, accept, no_workspace, guarantee_tensor_core,
     matmul_integer_lanes},
    {"cuda:cublaslt", kCuda, cublaslt_refusal, matmul_cublaslt_workspace, guarantee_library,
     matmul_cublaslt},
    {"cpu:integer_lanes", kCpu, accept, matmul_tensor_core_cpu_workspace, guarantee_tensor_core,
     matmul_tensor_core_cpu},
    {"cpu:openblas", kCpu, matmul_openblas_refusal, matmul_openblas_workspace, guarantee_library,
     matmul_openblas},
};

constexpr Kernel<MatmulProblem> kDigits = {
    "cuda:digits", kCuda, matmul_digits_refusal, matmul_digits_workspace, guarantee_exact,
    matmul_digits, 90};
constexpr Kernel<MatmulProblem> kResidues = {
    "cuda:residues", kCuda, matmul_residues_refusal, matmul_residues_workspace, guarantee_exact,
    matmul_residues, 90};
constexpr Kernel<MatmulProblem> kIntegers = {
    "cuda:integers", kCuda, accept, matmul_integers_workspace, guarantee_exact, matmul_integers};
constexpr Kernel<MatmulProblem> kExactAmx = {"cpu:exact_amx",          kCpu,
                                             matmul_exact_amx_refusal, matmul_exact_amx_workspace,
                                             guarantee_exact,          matmul_exact_amx};
constexpr Kernel<MatmulProblem> kExactVnni = {
    "cpu:exact_vnni", kCpu, matmul_exact_vnni_refusal, matmul_exact_vnni_workspace, guarantee_exact,
    matmul_exact_vnni};
constexpr Kernel<MatmulProblem> kExactF64 = {
    "cpu:exact_f64", kCpu, accept, matmul_exact_f64_workspace, guarantee_exact, matmul_exact_f64};

constexpr Kernel<MatmulProblem> kExact[] = {kDigits,   kResidues,  kIntegers,
                                            kExactAmx, kExactVnni, kExactF64};
// Residues first, where the tiles are many and k is long.
constexpr Kernel<MatmulProblem> kExactOfLongK[] = {kResidues, kDigits,    kIntegers,
                                                   kExactAmx, kExactVnni, kExactF64};

constexpr Kernel<MatmulProblem> kBytes[] = {
    {"cuda:warpgroups", kCuda, matmul_warpgroups_refusal, matmul_warpgroups_workspace,
     guarantee_exact, matmul_warpgroups, 90},
    {"cuda:mma_sync", kCuda, matmul_mma_sync_refusal, no_workspace, guarantee_exact,
     matmul_mma_sync, 0, follows_mma_sync},
    {"cuda:fma_chain", kCuda, accept, no_workspace, guarantee_exact, matmul_cuda},
    {"cpu:amx", kCpu, matmul_amx_refusal, matmul_amx_workspace, guarantee_exact, matmul_amx},
    {"cpu:vnni", kCpu, matmul_vnni_refusal, matmul_vnni_workspace, guarantee_exact, matmul_vnni},
    {"cpu:fma_chain", kCpu, accept, matmul_cpu_workspace, guarantee_exact, matmul_cpu},
};

}  // namespace

std::span<const Kernel<MatmulProblem>> MatmulProblem::kernels() const {
  if (element_dtype == Dtype::s8) return kBytes;
  if (math == ProductMath::tensor_core) return kTensorCore;
  if (math == ProductMath::exact && matmul_residues_are_faster(*this)) return kExactOfLongK;
  if (math == ProductMath::exact) return kExact;
  return kChain;
}

}  // namespace planck
