// The CPU kernel of the embedding family beside those of loops/table. It serves every dtype and
// stride pattern; operands have been checked against the problem.
#pragma once

#include "planck/ops/embedding/embedding.problem.h"

namespace planck {

// embedding_bag, cpu:bags
Result<void> embedding_bag_cpu(const Stream&, Workspace, const EmbeddingProblem&, const Operands&);
std::size_t embedding_bag_cpu_workspace(const EmbeddingProblem&);

}  // namespace planck
