// The kernel tables of the embedding family, best first.
#include <cmath>

#include "planck/math/chunked_sum.h"
#include "planck/ops/embedding/embedding.cuda.h"
#include "planck/ops/embedding/kernels.h"

namespace planck {

namespace {

std::string accept(const EmbeddingProblem&) { return ""; }

std::string accept_atomic(const EmbeddingProblem& p) {
  if (p.element_dtype == Dtype::f32 || p.element_dtype == Dtype::f64)
    return embedding_cuda_refusal(p);
  return "adds f32 and f64 alone, dout is " + std::string(name(p.element_dtype));
}

// Roundings of the compute type on the way to a result, and the one at the store.
PrecisionGuarantee guarantee(const EmbeddingProblem& p) {
  const Dtype compute = compute_dtype(p.element_dtype);
  double roundings = 0;
  if (p.kind != EmbeddingKind::embedding &&
      !(p.kind == EmbeddingKind::embedding_bag && p.mode == BagMode::max))
    roundings = chunked_depth(p.count()) + (p.accumulate ? 1 : 0) +
                (p.weighted || (p.is_bag() && p.mode == BagMode::mean) ? 1 : 0);
  double max_ulp = roundings;
  if (roundings > 0 && compute != p.element_dtype) {  // in hundredths, rounded up
    const double finer = p.element_dtype == Dtype::f16 ? 0x1p-13 : 0x1p-16;
    max_ulp = 0.5 + std::ceil(100 * roundings * finer) / 100;
  }
  return {compute, compute, Reproducibility::cross_device, max_ulp};
}

// Any order of additions: as many roundings as there may be contributions.
PrecisionGuarantee guarantee_atomic(const EmbeddingProblem& p) {
  return {p.element_dtype, p.element_dtype, Reproducibility::none,
          static_cast<double>(p.count() > 1 ? p.count() - 1 : 0) + (p.accumulate ? 1 : 0)};
}

// A build without CUDA keeps the rows and launches none of them.
#if defined(PLANCK_WITH_CUDA)
#define PLANCK_CUDA_LAUNCH(function) function
#else
#define PLANCK_CUDA_LAUNCH(function) nullptr
#endif

using Row = Kernel<EmbeddingProblem>;
constexpr DeviceKind kCpu = DeviceKind::cpu, kCuda = DeviceKind::cuda;

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
