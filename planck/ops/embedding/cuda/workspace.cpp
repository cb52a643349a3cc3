// Limits and workspace of the CUDA kernels, also known to builds without CUDA.
#include "planck/ops/embedding/embedding.cuda.h"
#include "planck/loops/table/cuda/layout.h"

namespace planck {

using embedding_device::BagLayout;
using embedding_device::SortedIndexLayout;

std::string embedding_cuda_refusal(const EmbeddingProblem& p) {
  const auto at_most = [](std::string_view what, std::int64_t n, std::int64_t most) {
    if (n <= most) return std::string();
    return std::string(what) + std::to_string(n) + ", at most " + std::to_string(most) +
           " are supported";
  };
  std::string reason =
      at_most("the number of indices is ", p.count(), embedding_device::kMaxEntries);
  if (reason.empty())
    reason = at_most("the number of bags is ", p.bags, embedding_device::kMaxEntries);
  if (reason.empty() && p.kind != EmbeddingKind::embedding_sparse_backward)
    reason = at_most("num_embeddings is ", p.num_embeddings, embedding_device::kMaxKeys);
  return reason;
}

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
