// Limits and workspace of the CUDA kernels, also known to builds without CUDA.
#include <algorithm>
#include <cmath>

#include "planck/loops/gemm/cuda/exact_cut.h"
#include "planck/loops/gemm/cuda/mma_tiles.h"
#include "planck/math/products/residues.h"
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

// As many as keep a Hopper of 132 multiprocessors busy with tiles of 128 × 64, whole chunks of 16
// bytes each, and long enough that adding them up is little beside.
std::int64_t matmul_byte_parts(std::int64_t batches, std::int64_t m, std::int64_t n,
                               std::int64_t k) {
  constexpr std::int64_t kProcessors = 132, kMost = 16, kLeast = 1024;
  const std::int64_t blocks = batches * ((m + 127) / 128) * ((n + 63) / 64);
  if (batches != 1 || blocks == 0) return 1;
  for (std::int64_t parts = std::min({kProcessors / blocks, k / kLeast, kMost}); parts > 1; --parts)
    if (k % (parts * 16) == 0) return parts;
  return 1;
}

// 16-bit operands are read where they lie. Strides decide at run which axis of C is the rows', and
// whether batches are.
WarpgroupsLayout::WarpgroupsLayout(const MatmulProblem& p) {
  if (p.element_dtype == Dtype::bf16 || p.element_dtype == Dtype::f16) return;
  const bool s8 = p.element_dtype == Dtype::s8;
  const std::int64_t chunk = s8 ? 16 : 4;
  const std::int64_t depth = (p.k + chunk - 1) / chunk * chunk, batches = numel(p.batch);
  b = aligned(bytes_for(p.element_dtype, batches * p.m * depth));
  sums = b + aligned(bytes_for(p.element_dtype, batches * p.n * depth));
  bytes = sums;
  if (!s8) return;
  const std::int64_t parts = std::max(matmul_byte_parts(1, batches * p.m, p.n, p.k),
                                      matmul_byte_parts(1, p.n, batches * p.m, p.k));
  if (parts > 1) bytes += aligned(static_cast<std::size_t>(4 * parts * batches * p.m * p.n));
}
std::size_t matmul_warpgroups_workspace(const MatmulProblem& p) {
  return WarpgroupsLayout(p).bytes;
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

namespace {

// Whether tiles may be cut along k, on a Hopper of 132 multiprocessors. Strides decide at run
// whether batches are rows, and which axis of C is the rows'.
bool may_cut(const MatmulProblem& p) {
  using namespace gemm_device;
  constexpr std::int64_t kClusters = 66;
  const std::int64_t batches = numel(p.batch);
  const auto tiles = [](std::int64_t count, std::int64_t rows, std::int64_t columns) {
    return count * ((rows + kExactRows - 1) / kExactRows) *
           ((columns + kExactColumns - 1) / kExactColumns);
  };
  const std::int64_t steps = (p.k + kExactDepth - 1) / kExactDepth;
  for (const std::int64_t all : {tiles(batches, p.m, p.n), tiles(batches, p.n, p.m),
                                 tiles(1, batches * p.m, p.n), tiles(1, p.n, batches * p.m)})
    if (tiles_to_cut(all, steps, kClusters) > 0) return true;
  return false;
}

}  // namespace

CutLayout::CutLayout(const MatmulProblem& p, int planes) {
  const std::int64_t batches = numel(p.batch);
  rows_a = batches * p.m, rows_b = batches * p.n;
  depth = (p.k + 15) / 16 * 16;
  bytes = 0;
  a = add(planes * rows_a * depth), b = add(planes * rows_b * depth);
  largest_a = add(4 * rows_a), largest_b = add(4 * rows_b);
  squares_a = add(4 * batches * ((p.m + 31) / 32)),
  squares_b = add(4 * batches * ((p.n + 31) / 32));
  exponents_a = add(4 * rows_a), exponents_b = add(4 * rows_b);
}
std::size_t CutLayout::add(std::int64_t bytes_wanted) {
  const std::size_t at = bytes;
  bytes += aligned(static_cast<std::size_t>(bytes_wanted));
  return at;
}

DigitsLayout::DigitsLayout(const MatmulProblem& p) : CutLayout(p, 3) {
  waiting = add(kMostBlocks * 128 * 128 * 8);
  cut = add(may_cut(p) ? 2 * gemm_device::kMostExactClusters * 8 * gemm_device::kExactRows *
                             gemm_device::kExactColumns
                       : 0);
}

std::size_t matmul_digits_workspace(const MatmulProblem& p) { return DigitsLayout(p).bytes; }

std::string matmul_residues_refusal(const MatmulProblem& p) {
  if (p.k > math::residues::kMostProducts)
    return "sums in s32 hold K up to " + std::to_string(math::residues::kMostProducts) + ", K is " +
           std::to_string(p.k);
  return matmul_digits_refusal(p);
}

ResiduesLayout::ResiduesLayout(const MatmulProblem& p) : CutLayout(p, math::residues::kMost) {
  residues = add(2 * kMostBlocks * 128 * 256 * math::residues::kMost);
}

std::size_t matmul_residues_workspace(const MatmulProblem& p) { return ResiduesLayout(p).bytes; }

// In units of what a multiprocessor takes for 128 × 256 of C and 128 of k of one product of bytes,
// 0.6 us on an H200, as measured. Residues go in whole rounds of large tiles, digits share the
// last; cutting into residues takes 2 us longer for a million numbers. Rows of one magnitude
// throughout need the eighth modulus, which takes longer than this says, so that a little is not
// enough: 50,304 rows of 8,192 random numbers take as long either way, gradients of logits 8 ms
// instead of 5.
bool matmul_residues_are_faster(const MatmulProblem& p) {
  if (!matmul_residues_refusal(p).empty()) return false;
  constexpr double kClusters = 66, kCut = 3.4e-6, kOfDigits = 10;
  constexpr double kMostMore = 4e9;  // bytes of workspace, 5 for each number of A and B
  const double of_round = p.multiplies_alone() ? 50 : 70;  // for reducing, joining, storing
  const auto batches = static_cast<double>(numel(p.batch)), m = static_cast<double>(p.m),
             n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  if (5 * batches * (m + n) * k > kMostMore) return false;
  const double steps = std::ceil(k / 128), down = std::ceil(m / 256);
  const double rounds = std::ceil(batches * down * std::ceil(n / 256) / kClusters);
  const double residues = rounds * (7 * steps + of_round) + kCut * batches * (m + n) * k;
  const double digits = batches * down * std::ceil(n / 128) / kClusters * (5.5 * steps + kOfDigits);
  return residues < 0.9 * digits;
}

std::size_t matmul_integers_workspace(const MatmulProblem& p) {
  return aligned(static_cast<std::size_t>(4 * numel(p.batch) * p.m)) +
         aligned(static_cast<std::size_t>(4 * numel(p.batch) * p.n));
}

}  // namespace planck
