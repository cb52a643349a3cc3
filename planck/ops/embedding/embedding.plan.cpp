// The kernel tables of the embedding family, best first.

#include "planck/loops/table/cuda/layout.h"
#include "planck/loops/table/kernels.h"
#include "planck/math/chunked_sum.h"
#include "planck/ops/embedding/cpu/kernels.h"
#include "planck/ops/embedding/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

std::string accept_atomic(const EmbeddingProblem& p) {
  if (p.element_dtype == Dtype::f32 || p.element_dtype == Dtype::f64) return table_cuda_refusal(p);
  return "adds f32 and f64 alone, dout is " + std::string(name(p.element_dtype));
}

// Roundings of the compute type on the way to a result, and the one at the store.
PrecisionGuarantee guarantee(const EmbeddingProblem& p) {
  double roundings = 0;
  if (p.kind != TableOp::read && !(p.kind == TableOp::read_bags && p.mode == BagMode::max))
    roundings = chunked_depth(p.count()) + (p.accumulate ? 1 : 0) +
                (p.weighted || (p.is_bag() && p.mode == BagMode::mean) ? 1 : 0);
  return after_roundings(p.element_dtype, roundings);
}

// Any order of additions: as many roundings as there may be contributions.
PrecisionGuarantee guarantee_atomic(const EmbeddingProblem& p) {
  return {p.element_dtype, p.element_dtype, Reproducibility::none,
          static_cast<double>(p.count() > 1 ? p.count() - 1 : 0) + (p.accumulate ? 1 : 0)};
}

// What loops/table answers for any table, as columns of this family's kernel tables.
template <auto kOf>
auto of_table(const EmbeddingProblem& p) {
  return kOf(p);
}
template <auto kLaunch>
Result<void> on_table(const Stream& stream, Workspace workspace, const EmbeddingProblem& p,
                      const Operands& operands) {
  return kLaunch(stream, workspace, p, operands);
}
std::size_t bag_workspace(const EmbeddingProblem& p) {
  return table_device::BagLayout::of(p).bytes;
}

using Row = Kernel<EmbeddingProblem>;
constexpr auto sorted_refusal = of_table<table_cuda_refusal>;
constexpr auto sorted_workspace = of_table<add_rows_cuda_workspace>;
constexpr Row kSortedOnCpu = {
    "cpu:sorted_rows",     kCpu, accept, of_table<add_rows_cpu_workspace>, guarantee,
    on_table<add_rows_cpu>};

constexpr Row kEmbedding[] = {
    {"cuda:rows", kCuda, accept, no_workspace, guarantee, on_table<read_rows_cuda>},
    {"cpu:rows", kCpu, accept, of_table<read_rows_cpu_workspace>, guarantee,
     on_table<read_rows_cpu>},
};
constexpr Row kBackward[] = {
    {"cuda:sorted_rows", kCuda, sorted_refusal, sorted_workspace, guarantee,
     on_table<add_rows_cuda>},
    {"cuda:atomic", kCuda, accept_atomic, no_workspace, guarantee_atomic,
     embedding_backward_atomic_cuda},
    kSortedOnCpu,
};
constexpr Row kSparseBackward[] = {
    {"cuda:sorted_rows", kCuda, sorted_refusal, sorted_workspace, guarantee,
     on_table<add_sparse_rows_cuda>},
    kSortedOnCpu,
};
constexpr Row kBag[] = {
    {"cuda:bags", kCuda, sorted_refusal, bag_workspace, guarantee, embedding_bag_cuda},
    {"cpu:bags", kCpu, accept, embedding_bag_cpu_workspace, guarantee, embedding_bag_cpu},
};
constexpr Row kBagBackward[] = {
    {"cuda:sorted_rows", kCuda, sorted_refusal, bag_workspace, guarantee,
     embedding_bag_backward_cuda},
    kSortedOnCpu,
};

}  // namespace

std::span<const Kernel<EmbeddingProblem>> EmbeddingProblem::kernels() const {
  switch (kind) {
    case TableOp::read:
      return kEmbedding;
    case TableOp::add:
      return kBackward;
    case TableOp::add_sparse:
      return kSparseBackward;
    case TableOp::read_bags:
      return kBag;
    case TableOp::add_bags:
      return kBagBackward;
  }
  return {};
}

}  // namespace planck
