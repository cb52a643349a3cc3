// Limits and workspace of the CUDA kernels, also known to builds without CUDA.
#include <algorithm>

#include "planck/ops/matmul/cuda/kernels.h"

namespace planck {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

CublasltLayout::CublasltLayout(const MatmulProblem& p) {
  const std::int64_t batches = numel(p.batch);
  const auto part = [&](std::int64_t elements) {
    return aligned(bytes_for(p.element_dtype, batches * elements));
  };
  a = 0;
  b = a + part(p.m * p.k);
  c = b + part(p.k * p.n);
  own = c + part(p.m * p.n);
  bytes = own + kOwn;
}

std::string matmul_cublaslt_refusal(const MatmulProblem& p) {
  if (!is_float(p.element_dtype))
    return "multiplies floats alone, a is " + std::string(name(p.element_dtype));
  const std::int64_t most = std::max({p.m, p.n, p.k, numel(p.batch)});
  if (most > INT32_MAX) return "counts in 32 bits, an extent is " + std::to_string(most);
  return "";
}

std::size_t matmul_cublaslt_workspace(const MatmulProblem& p) { return CublasltLayout(p).bytes; }

}  // namespace planck
