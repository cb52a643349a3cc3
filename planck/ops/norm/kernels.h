// The kernels of the norm family. Workspace sizes are also known to builds without CUDA.
#pragma once

#include "planck/ops/norm/problem.h"

namespace planck {

Result<void> norm_cpu(const Stream&, Workspace, const NormProblem&, const Operands&);
std::size_t norm_cpu_workspace(const NormProblem&);

Result<void> norm_cuda(const Stream&, Workspace, const NormProblem&, const Operands&);
std::size_t norm_cuda_workspace(const NormProblem&);

// Rows of a chunk of the sums down the rows, a power of two, and how many chunks there are.
inline constexpr std::int64_t kNormChunkRows = 512;
inline std::int64_t norm_chunks(const NormProblem& p) {
  return (p.rows() + kNormChunkRows - 1) / kNormChunkRows;
}

// The same where all gradients are found in one pass.
inline constexpr std::int64_t kCpuFusedRows = 64;
inline constexpr std::int64_t kFusedRows = 32;
inline std::int64_t fused_chunks(const NormProblem& p) {
  return (p.rows() + kFusedRows - 1) / kFusedRows;
}

}  // namespace planck
