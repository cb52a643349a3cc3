// The kernel tables of the embedding family, best first.

#include "planck/math/chunked_sum.h"
#include "planck/ops/embedding/embedding.cuda.h"
#include "planck/ops/embedding/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

std::string accept_atomic(const EmbeddingProblem& p) {
  if (p.element_dtype == Dtype::f32 || p.element_dtype == Dtype::f64)
    return embedding_cuda_refusal(p);
  return "adds f32 and f64 alone, dout is " + std::string(name(p.element_dtype));
}

// Roundings of the compute type on the way to a result, and the one at the store.
PrecisionGuarantee guarantee(const EmbeddingProblem& p) {
  double roundings = 0;
  if (p.kind != EmbeddingKind::embedding &&
      !(p.kind == EmbeddingKind::embedding_bag && p.mode == BagMode::max))
    roundings = chunked_depth(p.count()) + (p.accumulate ? 1 : 0) +
                (p.weighted || (p.is_bag() && p.mode == BagMode::mean) ? 1 : 0);
  return after_roundings(p.element_dtype, roundings);
}

// Any order of additions: as many roundings as there may be contributions.
PrecisionGuarantee guarantee_atomic(const EmbeddingProblem& p) {
  return {p.element_dtype, p.element_dtype, Reproducibility::none,
          static_cast<double>(p.count() > 1 ? p.count() - 1 : 0) + (p.accumulate ? 1 : 0)};
}

using Row = Kernel<EmbeddingProblem>;
constexpr Row kEmbedding[] = {
    {"cuda:rows", kCuda, accept, embedding_cuda_workspace, guarantee,
     PLANCK_CUDA_LAUNCH(embedding_cuda)},
    {"cpu:rows", kCpu, accept, embedding_cpu_workspace, guarantee, embedding_cpu},
};
constexpr Row kBackward[] = {
    {"cuda:sorted_rows", kCuda, embedding_cuda_refusal, embedding_backward_cuda_workspace,
     guarantee, PLANCK_CUDA_LAUNCH(embedding_backward_cuda)},
    {"cuda:atomic", kCuda, accept_atomic, embedding_backward_atomic_cuda_workspace,
     guarantee_atomic, PLANCK_CUDA_LAUNCH(embedding_backward_atomic_cuda)},
    {"cpu:sorted_rows", kCpu, accept, embedding_sorted_rows_cpu_workspace, guarantee,
     embedding_sorted_rows_cpu},
};
constexpr Row kSparseBackward[] = {
    {"cuda:sorted_rows", kCuda, embedding_cuda_refusal, embedding_sparse_backward_cuda_workspace,
     guarantee, PLANCK_CUDA_LAUNCH(embedding_sparse_backward_cuda)},
    {"cpu:sorted_rows", kCpu, accept, embedding_sorted_rows_cpu_workspace, guarantee,
     embedding_sorted_rows_cpu},
};
constexpr Row kBag[] = {
    {"cuda:bags", kCuda, embedding_cuda_refusal, embedding_bag_cuda_workspace, guarantee,
     PLANCK_CUDA_LAUNCH(embedding_bag_cuda)},
    {"cpu:bags", kCpu, accept, embedding_bag_cpu_workspace, guarantee, embedding_bag_cpu},
};
constexpr Row kBagBackward[] = {
    {"cuda:sorted_rows", kCuda, embedding_cuda_refusal, embedding_bag_backward_cuda_workspace,
     guarantee, PLANCK_CUDA_LAUNCH(embedding_bag_backward_cuda)},
    {"cpu:sorted_rows", kCpu, accept, embedding_sorted_rows_cpu_workspace, guarantee,
     embedding_sorted_rows_cpu},
};

}  // namespace

std::span<const Kernel<EmbeddingProblem>> EmbeddingProblem::kernels() const {
  switch (kind) {
    case EmbeddingKind::embedding:
      return kEmbedding;
    case EmbeddingKind::embedding_backward:
      return kBackward;
    case EmbeddingKind::embedding_sparse_backward:
      return kSparseBackward;
    case EmbeddingKind::embedding_bag:
      return kBag;
    case EmbeddingKind::embedding_bag_backward:
      return kBagBackward;
  }
  return {};
}

}  // namespace planck
