// The CPU kernels of the embedding family. Each serves every dtype and stride pattern of its op;
// operands have been checked against the problem.
#pragma once

#include "planck/ops/embedding/embedding.problem.h"

namespace planck {

// embedding, cpu:rows
Result<void> embedding_cpu(const Stream&, Workspace, const EmbeddingProblem&, const Operands&);
std::size_t embedding_cpu_workspace(const EmbeddingProblem&);

// embedding_backward, embedding_sparse_backward and embedding_bag_backward, cpu:sorted_rows
Result<void> embedding_sorted_rows_cpu(const Stream&, Workspace, const EmbeddingProblem&,
                                       const Operands&);
std::size_t embedding_sorted_rows_cpu_workspace(const EmbeddingProblem&);

// embedding_bag, cpu:bags
Result<void> embedding_bag_cpu(const Stream&, Workspace, const EmbeddingProblem&, const Operands&);
std::size_t embedding_bag_cpu_workspace(const EmbeddingProblem&);

}  // namespace planck
