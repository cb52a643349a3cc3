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

// cuda:tiles; f32 by chains, any strides.
PLANCK_CUDA_LIBRARY Result<void> attention_tiles(const Stream&, Workspace, const AttentionProblem&,
                                                 const Operands&);
std::string attention_tiles_refusal(const AttentionProblem&);

// Where the parts of the workspace of all three begin, in bytes: delta and lse of all queries, each
// head filled up to whole steps, and a bit for each row that is done again.
std::size_t attention_tiles_workspace(const AttentionProblem&);
struct AttentionTilesLayout {
  std::int64_t rows_of_head;
  std::size_t delta, lse, again, again_keys, bytes;
  explicit AttentionTilesLayout(const AttentionProblem&);
};

}  // namespace planck
