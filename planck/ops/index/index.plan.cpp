// The kernel tables of the index family, best first.

#include "planck/math/chunked_sum.h"
#include "planck/ops/index/cpu/kernels.h"
#include "planck/ops/index/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

std::string accept_integers(const IndexProblem& p) {
  return is_float(p.element_dtype) ? "floats are added by cuda:sorted_rows" : "";
}
std::string accept_floats(const IndexProblem& p) {
  return is_float(p.element_dtype) ? "" : "integers are added by cpu:lines";
}

// Moves are exact, and so are integers. Sums: roundings of the compute type on the way to a result,
// and the one at the store.
PrecisionGuarantee guarantee(const IndexProblem& p) {
  if (!p.adds() || !is_float(p.element_dtype))
    return {p.element_dtype, p.element_dtype, Reproducibility::cross_device, 0};
  const std::int64_t most = p.x.rank() == 0 ? 0 : p.items()[p.axis];
  const double roundings = chunked_depth(most) + (p.with_x ? 1 : 0);
  return after_roundings(p.element_dtype, roundings);
}

using Row = Kernel<IndexProblem>;
constexpr Row kRead[] = {
    {"cuda:gather", kCuda, accept, no_workspace, guarantee, index_read_cuda},
    {"cpu:gather", kCpu, accept, index_read_cpu_workspace, guarantee, index_read_cpu},
};
constexpr Row kScatter[] = {
    {"cuda:winners", kCuda, index_scatter_cuda_refusal, index_scatter_cuda_workspace, guarantee,
     index_scatter_cuda},
    {"cpu:lines", kCpu, accept, no_workspace, guarantee, index_lines_cpu},
};
constexpr Row kAdd[] = {
    {"cuda:lines", kCuda, index_line_sums_cuda_refusal, no_workspace, guarantee,
     index_line_sums_cuda},
    {"cuda:sorted_rows", kCuda, index_sums_cuda_refusal, index_sums_cuda_workspace, guarantee,
     index_sums_cuda},
    {"cuda:integer_atomics", kCuda, accept_integers, no_workspace, guarantee,
     index_integer_sums_cuda},
    {"cpu:lines", kCpu, index_lines_cpu_refusal, no_workspace, guarantee, index_lines_cpu},
    {"cpu:sorted_rows", kCpu, accept_floats, index_sums_cpu_workspace, guarantee, index_sums_cpu},
};
constexpr Row kMasks[] = {
    {"cuda:ranks", kCuda, accept, index_masks_cuda_workspace, guarantee, index_masks_cuda},
    {"cpu:ranks", kCpu, accept, index_masks_cpu_workspace, guarantee, index_masks_cpu},
};
constexpr Row kOneHot[] = {
    {"cuda:classes", kCuda, accept, no_workspace, guarantee, index_one_hot_cuda},
    {"cpu:classes", kCpu, accept, no_workspace, guarantee, index_one_hot_cpu},
};

}  // namespace

std::span<const Kernel<IndexProblem>> IndexProblem::kernels() const {
  switch (kind) {
    case IndexKind::gather:
    case IndexKind::index_select:
      return kRead;
    case IndexKind::scatter:
      return kScatter;
    case IndexKind::scatter_add:
    case IndexKind::index_add:
      return kAdd;
    case IndexKind::one_hot:
      return kOneHot;
    default:
      return kMasks;
  }
}

}  // namespace planck
