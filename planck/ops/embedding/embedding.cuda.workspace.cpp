// Workspace of the CUDA kernels, also known to builds without CUDA.
#include "planck/ops/embedding/embedding.cuda.h"
#include "planck/ops/embedding/sorted_index.h"

namespace planck {

using embedding_device::BagLayout;
using embedding_device::SortedIndexLayout;

std::size_t embedding_cuda_workspace(const EmbeddingProblem&) { return 0; }
std::size_t embedding_backward_cuda_workspace(const EmbeddingProblem& p) {
  return SortedIndexLayout::of_rows(p).bytes;
}
std::size_t embedding_backward_atomic_cuda_workspace(const EmbeddingProblem&) { return 0; }
std::size_t embedding_sparse_backward_cuda_workspace(const EmbeddingProblem& p) {
  return SortedIndexLayout::of_rows(p).bytes;
}
std::size_t embedding_bag_cuda_workspace(const EmbeddingProblem& p) {
  return BagLayout::of(p).bytes;
}
std::size_t embedding_bag_backward_cuda_workspace(const EmbeddingProblem& p) {
  return BagLayout::of(p).bytes;
}

}  // namespace planck
