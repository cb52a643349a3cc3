// Canonical sums of several tensors, those of a whole model in one launch: the table of tensors and
// of their parts is the kernel's parameter, a block finds its tensor in it by bisection and sums
// 1,024 elements. Parts are read four at a time and joined like digits of a counter.
#include <algorithm>
#include <memory>

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/cuda/values.cuh"
#include "planck/math/reduction.h"
#include "planck/optim/step/cuda/kernels.h"

namespace planck::optim {

namespace {

constexpr int kThreads = 256, kTurns = 4, kReads = 4;
constexpr std::int64_t kBlockElements = kThreads * kTurns;
constexpr int kTableRows = 400, kTableParts = 2700;  // 31,216 bytes
static_assert(kMostSummands <= kTableParts);

struct Row {
  void* out;
  std::int64_t count;
  int first_block;
  Dtype from, to;
};
struct Table {
  int rows, parts;  // of each row
  Row row[kTableRows];
  const void* part[kTableParts];
};

template <class C>
__device__ __forceinline__ C read(Dtype dtype, const void* part, std::int64_t i) {
  if (part == nullptr) return C(0);
  switch (dtype) {
    case Dtype::f64:
      return static_cast<C>(static_cast<const double*>(part)[i]);
    case Dtype::f32:
      return static_cast<C>(static_cast<const float*>(part)[i]);
    case Dtype::bf16:
      return static_cast<C>(widen(static_cast<const bf16*>(part)[i]));
    default:
      return static_cast<C>(widen(static_cast<const f16*>(part)[i]));
  }
}
template <class C>
__device__ __forceinline__ void write(Dtype dtype, void* out, std::int64_t i, C v) {
  if (dtype == Dtype::f64)
    static_cast<double*>(out)[i] = static_cast<double>(v);
  else if (dtype == Dtype::f32)
    static_cast<float*>(out)[i] = static_cast<float>(v);
  else if (dtype == Dtype::bf16)
    static_cast<bf16*>(out)[i] = stored<bf16>(static_cast<float>(v));
  else
    static_cast<f16*>(out)[i] = stored<f16>(static_cast<float>(v));
}

template <class C>
__device__ C sum_of(const Row& row, const void* const* parts, int n, std::int64_t i) {
  reduce_math::JoinCounter<reduce_math::Add, C, 11> sum;
  for (int first = 0; first < n; first += kReads) {
    C v[kReads];
#pragma unroll
    for (int k = 0; k < kReads; ++k)
      v[k] = first + k < n ? read<C>(row.from, parts[first + k], i) : C(0);
#pragma unroll
    for (int k = 0; k < kReads; ++k)
      if (first + k < n) sum.add(v[k]);
  }
  return canonical_nan(sum.result());
}

__global__ void __launch_bounds__(kThreads) sums_kernel(const __grid_constant__ Table table) {
  int low = 0, high = table.rows;  // the last row whose first block is not behind this one
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.row[middle].first_block <= static_cast<int>(blockIdx.x) ? low : high) = middle;
  }
  const Row& row = table.row[low];
  const void* const* parts = table.part + low * table.parts;
  const bool wide = row.from == Dtype::f64 || row.to == Dtype::f64;
  const std::int64_t begin =
      (static_cast<std::int64_t>(blockIdx.x) - row.first_block) * kBlockElements;
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::int64_t i = begin + turn * kThreads + static_cast<int>(threadIdx.x);
    if (i >= row.count) return;
    if (wide)
      write(row.to, row.out, i, sum_of<double>(row, parts, table.parts, i));
    else
      write(row.to, row.out, i, sum_of<float>(row, parts, table.parts, i));
  }
}

}  // namespace

Result<void> sums_cuda(const Stream& stream, std::span<const SumRow> rows, int parts) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  auto table = std::make_unique<Table>();
  const auto most = static_cast<std::size_t>(std::min(kTableRows, kTableParts / parts));
  for (std::size_t first = 0; first < rows.size(); first += most) {
    table->rows = static_cast<int>(std::min(most, rows.size() - first));
    table->parts = parts;
    std::int64_t blocks = 0;
    for (int i = 0; i < table->rows; ++i) {
      const SumRow& r = rows[first + static_cast<std::size_t>(i)];
      table->row[i] = {r.out, r.count, static_cast<int>(blocks), r.from, r.to};
      std::copy(r.parts, r.parts + parts, table->part + i * parts);
      blocks += ceil_div(r.count, kBlockElements);
    }
    if (auto ok = launch(stream, "sums", sums_kernel, blocks, kThreads, *table); !ok) return ok;
  }
  return {};
}

}  // namespace planck::optim
