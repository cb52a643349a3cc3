// The kernel table of the norm family.
#include <algorithm>
#include <cmath>

#include "planck/ops/norm/cpu/kernels.h"
#include "planck/ops/norm/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// Relative to the largest magnitude among the terms of a result.
PrecisionGuarantee guarantee(const NormProblem& p) {
  const double depth = pairwise_depth(std::max(p.length(), p.backward() ? p.rows() : 1));
  return after_roundings(p.element_dtype, 2 * depth + 10);
}

constexpr Kernel<NormProblem> kRows[] = {
    {"cuda:rows", kCuda, accept, norm_cuda_workspace, guarantee, norm_cuda},
    {"cpu:rows", kCpu, accept, norm_cpu_workspace, guarantee, norm_cpu},
};

}  // namespace

std::span<const Kernel<NormProblem>> NormProblem::kernels() const { return kRows; }

namespace {
// Two sums for each chunk of rows and each column.
std::size_t partials(const NormProblem& p, std::int64_t chunks) {
  if (!p.backward() || !(p.weighted || p.biased)) return 0;
  const std::size_t value = p.element_dtype == Dtype::f64 ? 8 : 4;
  return 2 * static_cast<std::size_t>(chunks * p.length()) * value;
}
}  // namespace

std::size_t norm_cuda_workspace(const NormProblem& p) {
  std::int64_t chunks = norm_chunks(p);
  if (p.element_dtype != Dtype::f64 && p.length() <= kFusedLength && p.rows() > 0) {
    const std::int64_t each =
        fused_cut(p.rows(), p.length(), static_cast<int>(storage_bytes(p.element_dtype))).rows;
    chunks = std::max(chunks, (p.rows() + each - 1) / each);
  }
  return partials(p, chunks);
}
std::size_t norm_cpu_workspace(const NormProblem& p) {
  const std::int64_t chunks = (p.rows() + kCpuFusedRows - 1) / kCpuFusedRows;
  return chunks <= 1 ? 0 : partials(p, chunks);
}

// The chunk of rows that leaves the processors of an H200 idle least. Cost: turns of the blocks
// that fit at once, times the rows of a chunk plus as many rows as it costs to begin a block and to
// leave its sums to the second launch.
FusedCut fused_cut(std::int64_t rows, std::int64_t length, int element_bytes) {
  constexpr std::int64_t kProcessors = 132, kMemory = 227 << 10, kReserved = 2048;
  const int runs = length <= 128 ? 1 : 2;
  const int of_warp = 32 * 4 * runs;  // columns
  const int threads =
      32 * static_cast<int>(std::max<std::int64_t>(1, (length + of_warp - 1) / of_warp));
  const std::int64_t begin = 2 + 1024 / std::max<std::int64_t>(1, length);
  FusedCut best{0, runs, threads, 0};
  std::int64_t least = 0;
  int levels = 0;  // of the sums, in shared memory
  for (std::int64_t each = 4; each <= kFusedRows; each *= 2, ++levels) {
    const int memory = runs * threads * (16 * element_bytes + 32 * levels);
    const std::int64_t fit = std::max<std::int64_t>(
        1, std::min<std::int64_t>(1024 / runs / threads, kMemory / (memory + kReserved)));
    const std::int64_t chunks = (rows + each - 1) / each;
    const std::int64_t turns = (chunks + kProcessors * fit - 1) / (kProcessors * fit);
    const std::int64_t cost = turns * fit * (each + begin);
    if (best.rows == 0 || cost < least) {
      best = {each, runs, threads, memory};
      least = cost;
    }
  }
  return best;
}

}  // namespace planck
