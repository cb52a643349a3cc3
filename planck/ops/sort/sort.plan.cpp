// The kernel tables of the sort family, best first.
#include "planck/ops/sort/cpu/kernels.h"
#include "planck/ops/sort/cuda/kernels.h"
#include "planck/ops/sort/cuda/layout.h"
#include "planck/plan/kernel_table.h"

namespace planck {

std::string sort_block_cuda_refusal(const SortProblem& p) {
  if (p.length() <= kMostBlockRow) return "";
  return "sorts rows of up to " + std::to_string(kMostBlockRow) + " elements, they have " +
         std::to_string(p.length());
}
std::string sort_radix_cuda_refusal(const SortProblem& p) {
  if (p.length() <= sort_device::kMostRow) return "";
  return "sorts rows of up to " + std::to_string(sort_device::kMostRow) + " elements, they have " +
         std::to_string(p.length());
}
std::size_t sort_radix_cuda_workspace(const SortProblem& p) {
  return sort_device::RadixLayout(p).bytes;
}

namespace {

PrecisionGuarantee guarantee(const SortProblem& p) {
  return {p.element_dtype, p.element_dtype, Reproducibility::cross_device, 0};
}

constexpr Kernel<SortProblem> kKernels[] = {
    {"cuda:block", kCuda, sort_block_cuda_refusal, no_workspace, guarantee, sort_block_cuda},
    {"cuda:radix", kCuda, sort_radix_cuda_refusal, sort_radix_cuda_workspace, guarantee,
     sort_radix_cuda},
    {"cpu:radix", kCpu, accept, sort_cpu_workspace, guarantee, sort_cpu},
};

}  // namespace

std::span<const Kernel<SortProblem>> SortProblem::kernels() const { return kKernels; }

}  // namespace planck
