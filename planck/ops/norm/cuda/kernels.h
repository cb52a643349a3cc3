// The CUDA kernels of the norm family, as host code sees them. Operands have been checked against
// the problem. Workspace sizes are also known to builds without CUDA.
#pragma once

#include "planck/ops/norm/host/chunks.h"

namespace planck {

PLANCK_CUDA_LIBRARY Result<void> norm_cuda(const Stream&, Workspace, const NormProblem&,
                                           const Operands&);
std::size_t norm_cuda_workspace(const NormProblem&);

// Where all gradients are computed in one pass: a block has all columns of a chunk of 2^k rows.
inline constexpr std::int64_t kFusedLength = 4096, kFusedRows = 128;
struct FusedCut {
  std::int64_t rows;          // of a chunk, from 4 to kFusedRows
  int runs, threads, memory;  // runs of a thread, of four columns; bytes of shared memory
};
FusedCut fused_cut(std::int64_t rows, std::int64_t length, int element_bytes);

}  // namespace planck
