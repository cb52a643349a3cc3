// The kernels of the norm family. Workspace sizes are also known to builds without CUDA.
#pragma once

#include "planck/ops/norm/norm.problem.h"

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

// Where all gradients are found in one pass: rows of a chunk on the CPU.
inline constexpr std::int64_t kCpuFusedRows = 64;
// On CUDA a block has all columns of a chunk of rows, a power of two of them.
inline constexpr std::int64_t kFusedLength = 4096, kFusedRows = 128;
struct FusedCut {
  std::int64_t rows;          // of a chunk, from 4 to kFusedRows
  int runs, threads, memory;  // runs of a thread, of four columns; bytes of shared memory
};
FusedCut fused_cut(std::int64_t rows, std::int64_t length, int element_bytes);

}  // namespace planck
