// Workspace of the CUDA kernels, also known to builds without CUDA.
#include "planck/ops/embedding/embedding.cuda.h"

namespace planck {

std::size_t embedding_cuda_workspace(const EmbeddingProblem&) { return 0; }
std::size_t embedding_backward_cuda_workspace(const EmbeddingProblem&) { return 0; }
std::size_t embedding_backward_atomic_cuda_workspace(const EmbeddingProblem&) { return 0; }
std::size_t embedding_sparse_backward_cuda_workspace(const EmbeddingProblem&) { return 0; }
std::size_t embedding_bag_cuda_workspace(const EmbeddingProblem&) { return 0; }
std::size_t embedding_bag_backward_cuda_workspace(const EmbeddingProblem&) { return 0; }

}  // namespace planck
