// Workspace of the CUDA kernels, also known to builds without CUDA.
#include "planck/ops/quantize/cuda/kernels.h"

namespace planck {

namespace {

// A chunk of a group has at least kChunk members, or kColumnChunk where groups may be columns in
// memory. Each level of partial sums adds up kChunk of the level before.
constexpr std::int64_t kChunk = 1024, kColumnChunk = 128;

std::int64_t least_chunk(const QuantProblem& p) {
  return p.granularity == Granularity::per_channel && p.map().outer > 1 ? kColumnChunk : kChunk;
}

// Partial sums of one group, on all levels.
std::int64_t partial_sums(const QuantProblem& p) {
  std::int64_t total = 0, n = p.map().members();
  for (std::int64_t step = least_chunk(p); n > 1; step = kChunk) {
    n = (n + step - 1) / step;
    if (n > 1) total += n;
  }
  return total;
}

// Two values each: the ends of a range, or the sums of dscale and dzero_point.
std::size_t pair_bytes(const QuantProblem& p, std::int64_t pairs) {
  return static_cast<std::size_t>(pairs) * 2 * storage_bytes(compute_dtype(p.element_dtype));
}

}  // namespace

std::size_t quantize_dynamic_cuda_workspace(const QuantProblem& p) {
  return p.map().members() > least_chunk(p) ? pair_bytes(p, p.map().channels) : 0;
}

std::size_t quantize_learned_cuda_workspace(const QuantProblem& p) {
  return pair_bytes(p, p.map().channels * partial_sums(p));
}

}  // namespace planck
