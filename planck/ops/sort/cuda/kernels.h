// The CUDA kernels of the sort family, as host code sees them. Each serves every dtype and stride
// pattern; operands have been checked against the problem. Workspace sizes are also known to builds
// without CUDA.
#pragma once

#include "planck/ops/sort/sort.problem.h"

namespace planck {

// cuda:block, rows of up to kMostBlockRow elements
inline constexpr std::int64_t kMostBlockRow = 4096;
PLANCK_CUDA_LIBRARY Result<void> sort_block_cuda(const Stream&, Workspace, const SortProblem&,
                                                 const Operands&);
std::string sort_block_cuda_refusal(const SortProblem&);

// cuda:radix
PLANCK_CUDA_LIBRARY Result<void> sort_radix_cuda(const Stream&, Workspace, const SortProblem&,
                                                 const Operands&);
std::string sort_radix_cuda_refusal(const SortProblem&);
std::size_t sort_radix_cuda_workspace(const SortProblem&);

}  // namespace planck
