// Limits and workspace of the CUDA kernels, also known to builds without CUDA.
#include "planck/loops/table/cuda/layout.h"
#include "planck/loops/table/kernels.h"

namespace planck {

std::string table_cuda_refusal(const TableProblem& p) {
  const auto at_most = [](std::string_view what, std::int64_t n, std::int64_t most) {
    if (n <= most) return std::string();
    return std::string(what) + std::to_string(n) + ", at most " + std::to_string(most) +
           " are supported";
  };
  std::string reason = at_most("the number of indices is ", p.count(), table_device::kMaxEntries);
  if (reason.empty()) reason = at_most("the number of bags is ", p.bags, table_device::kMaxEntries);
  if (reason.empty() && p.kind != TableOp::add_sparse)
    reason = at_most("num_embeddings is ", p.num_embeddings, table_device::kMaxKeys);
  return reason;
}

std::size_t add_rows_cuda_workspace(const TableProblem& p) {
  return table_device::SortedIndexLayout::of_rows(p).bytes;
}

}  // namespace planck
