// The CUDA kernels of the embedding family, as host code sees them. Operands have been checked
// against the problem: dtypes, shapes, no overlap; strides are arbitrary. Workspace sizes are also
// known to builds without CUDA.
#pragma once

#include "planck/ops/embedding/embedding.problem.h"

namespace planck {

// Why the kernels that sort, or read bags, cannot serve; "" where they can.
std::string embedding_cuda_refusal(const EmbeddingProblem&);

// embedding, cuda:rows
Result<void> embedding_cuda(const Stream&, Workspace, const EmbeddingProblem&, const Operands&);
std::size_t embedding_cuda_workspace(const EmbeddingProblem&);

// embedding_backward, cuda:sorted_rows
Result<void> embedding_backward_cuda(const Stream&, Workspace, const EmbeddingProblem&,
                                     const Operands&);
std::size_t embedding_backward_cuda_workspace(const EmbeddingProblem&);

// embedding_backward, cuda:atomic; f32 and f64
Result<void> embedding_backward_atomic_cuda(const Stream&, Workspace, const EmbeddingProblem&,
                                            const Operands&);
std::size_t embedding_backward_atomic_cuda_workspace(const EmbeddingProblem&);

// embedding_sparse_backward, cuda:sorted_rows
Result<void> embedding_sparse_backward_cuda(const Stream&, Workspace, const EmbeddingProblem&,
                                            const Operands&);
std::size_t embedding_sparse_backward_cuda_workspace(const EmbeddingProblem&);

// embedding_bag, cuda:bags
Result<void> embedding_bag_cuda(const Stream&, Workspace, const EmbeddingProblem&, const Operands&);
std::size_t embedding_bag_cuda_workspace(const EmbeddingProblem&);

// embedding_bag_backward, cuda:sorted_rows
Result<void> embedding_bag_backward_cuda(const Stream&, Workspace, const EmbeddingProblem&,
                                         const Operands&);
std::size_t embedding_bag_backward_cuda_workspace(const EmbeddingProblem&);

}  // namespace planck
