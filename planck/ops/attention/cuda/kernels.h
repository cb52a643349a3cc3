// The CUDA kernels of the attention family, as host code sees them. Operands have been checked
// against the problem.
#pragma once

#include "planck/ops/attention/attention.problem.h"

namespace planck {

// cuda:rows; every dtype and math, any strides. The workspace has delta, for backward.
PLANCK_CUDA_LIBRARY Result<void> attention_cuda(const Stream&, Workspace, const AttentionProblem&,
                                                const Operands&);
std::size_t attention_cuda_workspace(const AttentionProblem&);

// cuda:warpgroups and cuda:mma_sync; bf16 and f16 on tensor cores. Operands that are not read in
// chunks of 16 bytes go to cuda:rows.
PLANCK_CUDA_LIBRARY Result<void> attention_warpgroups(const Stream&, Workspace,
                                                      const AttentionProblem&, const Operands&);
PLANCK_CUDA_LIBRARY Result<void> attention_mma_sync(const Stream&, Workspace,
                                                    const AttentionProblem&, const Operands&);
std::string attention_warpgroups_refusal(const AttentionProblem&);
std::string attention_mma_sync_refusal(const AttentionProblem&);

// cuda:tiles; f32 by chains, any strides. Backward keeps slopes in the workspace, as long as they
// are no more than kMostSlopes bytes; cuda:tiles:twice, backward alone, computes scores twice.
inline constexpr std::int64_t kMostSlopes = std::int64_t{1} << 28;
PLANCK_CUDA_LIBRARY Result<void> attention_tiles(const Stream&, Workspace, const AttentionProblem&,
                                                 const Operands&);
PLANCK_CUDA_LIBRARY Result<void> attention_tiles_twice(const Stream&, Workspace,
                                                       const AttentionProblem&, const Operands&);
std::string attention_tiles_refusal(const AttentionProblem&);
std::string attention_tiles_twice_refusal(const AttentionProblem&);

// Where the parts of the workspace of all of these begin, in bytes: delta and lse of all queries,
// each head filled up to whole steps, a bit for each row that is done again, and kept slopes.
std::size_t attention_tiles_workspace(const AttentionProblem&);
std::size_t attention_slopes_workspace(const AttentionProblem&);
struct AttentionTilesLayout {
  std::int64_t rows_of_head;
  std::size_t delta, lse, again, again_keys, slopes, bytes;
  explicit AttentionTilesLayout(const AttentionProblem&, bool keeps_slopes = false);
};

// Tiles of 64 keys by 64 queries: those of a head, of which in a square that is causal without a
// window the upper triangle alone.
struct AttentionSlopeTiles {
  std::int64_t of_head, keys;
  bool triangle;
  explicit AttentionSlopeTiles(const AttentionProblem&);
};

}  // namespace planck
