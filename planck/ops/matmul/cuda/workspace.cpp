// Limits and workspace of the CUDA kernels, also known to builds without CUDA.
#include <algorithm>

#include "planck/loops/gemm/cuda/mma_tiles.h"
#include "planck/ops/matmul/cuda/kernels.h"

namespace planck {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// Where an operand does not lie along k, a copy is made by a grid of tiles: its second and third
// axes have at most 65,535 blocks.
std::string copied_by_a_grid(const MatmulProblem& p) {
  constexpr std::int64_t kMost = 65535, kTile = 128;
  if (const std::int64_t batches = numel(p.batch); batches > kMost)
    return "copies operands of up to 65535 batches, there are " + std::to_string(batches);
  if (p.k > kMost * kTile)
    return "copies operands with K up to " + std::to_string(kMost * kTile) + ", K is " +
           std::to_string(p.k);
  return "";
}

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

std::string matmul_warpgroups_refusal(const MatmulProblem& p) {
  if (p.element_dtype == Dtype::bf16 || p.element_dtype == Dtype::f16) return "";
  return copied_by_a_grid(p);
}

// 16-bit operands are read where they lie.
std::size_t matmul_warpgroups_workspace(const MatmulProblem& p) {
  if (p.element_dtype == Dtype::bf16 || p.element_dtype == Dtype::f16) return 0;
  const std::int64_t chunk = p.element_dtype == Dtype::s8 ? 16 : 4;
  const std::int64_t depth = (p.k + chunk - 1) / chunk * chunk, batches = numel(p.batch);
  return aligned(bytes_for(p.element_dtype, batches * p.m * depth)) +
         aligned(bytes_for(p.element_dtype, batches * p.n * depth));
}

// Batches may become rows: so many rows, or batches, there may be.
std::string matmul_mma_sync_refusal(const MatmulProblem& p) {
  const std::int64_t batches = numel(p.batch);
  if (!gemm_device::fits_mma_tiles(batches, p.m, p.n, p.k) ||
      !gemm_device::fits_mma_tiles(1, batches * p.m, p.n, p.k))
    return "counts rows and tiles in 32 bits, A has " + std::to_string(batches) + " matrices of " +
           std::to_string(p.m) + " rows";
  return "";
}

std::string matmul_digits_refusal(const MatmulProblem& p) {
  constexpr std::int64_t kMostInt64 = std::int64_t{1} << 18;
  if (p.k > kMostInt64)
    return "sums in int64 hold K up to " + std::to_string(kMostInt64) + ", K is " +
           std::to_string(p.k);
  const std::int64_t most = numel(p.batch) * std::max(p.m, p.n);
  if (most > INT32_MAX) return "counts in 32 bits, an extent is " + std::to_string(most);
  return copied_by_a_grid(p);
}

DigitsLayout::DigitsLayout(const MatmulProblem& p) {
  const std::int64_t batches = numel(p.batch);
  rows_a = batches * p.m, rows_b = batches * p.n;
  depth = (p.k + 15) / 16 * 16;
  std::size_t end = 0;
  const auto part = [&](std::int64_t bytes_wanted) {
    const std::size_t at = end;
    end += aligned(static_cast<std::size_t>(bytes_wanted));
    return at;
  };
  a = part(3 * rows_a * depth), b = part(3 * rows_b * depth);
  largest_a = part(4 * rows_a), largest_b = part(4 * rows_b);
  exponents_a = part(4 * rows_a), exponents_b = part(4 * rows_b);
  waiting = part(kMostBlocks * 128 * 128 * 8);
  bytes = end;
}

std::size_t matmul_digits_workspace(const MatmulProblem& p) { return DigitsLayout(p).bytes; }

std::size_t matmul_integers_workspace(const MatmulProblem& p) {
  return aligned(static_cast<std::size_t>(4 * numel(p.batch) * p.m)) +
         aligned(static_cast<std::size_t>(4 * numel(p.batch) * p.n));
}

}  // namespace planck
