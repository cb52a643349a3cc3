// The CUDA kernels of the embedding family beside those of loops/table, as host code sees them.
// Operands have been checked against the problem: dtypes, shapes, no overlap. Strides are
// arbitrary.
#pragma once

#include "planck/ops/embedding/embedding.problem.h"

namespace planck {

// embedding_backward, cuda:atomic; f32 and f64, without workspace
PLANCK_CUDA_LIBRARY Result<void> embedding_backward_atomic_cuda(const Stream&, Workspace,
                                                                const EmbeddingProblem&,
                                                                const Operands&);

// embedding_bag, cuda:bags
PLANCK_CUDA_LIBRARY Result<void> embedding_bag_cuda(const Stream&, Workspace,
                                                    const EmbeddingProblem&, const Operands&);

// embedding_bag_backward, cuda:sorted_rows
PLANCK_CUDA_LIBRARY Result<void> embedding_bag_backward_cuda(const Stream&, Workspace,
                                                             const EmbeddingProblem&,
                                                             const Operands&);

}  // namespace planck
