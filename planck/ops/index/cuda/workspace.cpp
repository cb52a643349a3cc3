// Limits and workspace of the CUDA kernels, also known to builds without CUDA.
#include <algorithm>

#include "planck/ops/index/cuda/kernels.h"
#include "planck/ops/index/cuda/line_sums.h"
#include "planck/ops/index/cuda/masks.h"

namespace planck {

// Per element of out, the position on the axis of the last item that names it, plus one.
std::size_t index_scatter_cuda_workspace(const IndexProblem& p) {
  return static_cast<std::size_t>(numel(p.x)) * sizeof(std::uint32_t);
}
std::string index_scatter_cuda_refusal(const IndexProblem& p) {
  if (p.items()[p.axis] < UINT32_MAX) return "";
  return "items are numbered in 32 bits, the axis has " + std::to_string(p.items()[p.axis]);
}

std::string index_line_sums_cuda_refusal(const IndexProblem& p) {
  constexpr std::int64_t kShort = 64, kManyLines = 1 << 16, kFewItems = 4096;
  if (!is_float(p.element_dtype)) return "integers are added by cuda:integer_atomics";
  const std::int64_t length = p.items()[p.axis], most = std::max(length, p.extent());
  const std::int64_t items = numel(p.items());
  if (most > index_device::kMostDeviceLine)
    return "sums along axes of up to " + std::to_string(index_device::kMostDeviceLine) +
           ", items have " + std::to_string(length) + ", x " + std::to_string(p.extent());
  if (p.by_slice() && p.inner() > 1 && items > kFewItems)
    return "rows of " + std::to_string(p.inner()) + " elements are added by cuda:sorted_rows";
  if (most < kShort && items > kManyLines * std::max<std::int64_t>(length, 1))
    return "lines of " + std::to_string(length) + " items are too short for a block each";
  return "";
}

std::size_t index_masks_cuda_workspace(const IndexProblem& p) {
  return index_device::MaskLayout(numel(p.x)).bytes;
}

}  // namespace planck
