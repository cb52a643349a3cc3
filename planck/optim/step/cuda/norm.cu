// Σ x² of many tensors in the canonical order: a warp joins 1,024 consecutive elements, a block
// 8,192 (kSquareChunk), one block per tensor the partial sums of its chunks. What lies beyond its
// end counts as +0, which changes no sum of squares. Where a sum in f32 overflowed or nearly
// vanished, the tensor is summed again in f64: a second pair of launches looks, and else returns.
// Of few chunks, one block does all that comes after the partial sums and finds the norm: two
// launches instead of five.
#include <algorithm>
#include <memory>

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/rows/cuda/joins.cuh"
#include "planck/optim/step/cuda/kernels.h"

namespace planck::optim {

namespace {

namespace rd = reduce_device;
using reduce_math::Add;

constexpr int kThreads = 256, kWarps = 8, kRuns = 8, kEach = 4;
static_assert(kThreads * kRuns * kEach == kSquareChunk);
constexpr int kTableRows = 1000;

struct Row {
  const void* data;
  std::int64_t count;
  int first_block;
  Dtype dtype;
};
struct Table {
  int rows;
  Row row[kTableRows];
};

template <class T, class C>
__device__ __forceinline__ C squares_of_chunk(const Row& row, std::int64_t begin) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kBytes = kEach * static_cast<int>(sizeof(T));
  C runs[kRuns];
#pragma unroll
  for (int k = 0; k < kRuns; ++k) {
    const std::int64_t i = begin + ((warp * kRuns + k) * 32 + lane) * kEach;
    const T* at = static_cast<const T*>(row.data) + i;
    C v[kEach];
    if (i + kEach <= row.count &&
        reinterpret_cast<std::uintptr_t>(at) % (kBytes < 16 ? kBytes : 16) == 0) {
      const auto p = load_pack<kBytes, false>(at, 0);
#pragma unroll
      for (int e = 0; e < kEach; ++e) v[e] = C(element_of<T>(p, e));
    } else {
#pragma unroll
      for (int e = 0; e < kEach; ++e) v[e] = i + e < row.count ? C(loaded(at[e])) : C(0);
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] = v[e] * v[e];
    runs[k] = rd::join_run<Add>(v);
  }
  __shared__ C shared[kWarps];
  return rd::join_warps<Add>(rd::join_warp<Add>(runs), kWarps, shared);
}

__device__ __forceinline__ const Row& row_of_block(const Table& table, int& index) {
  int low = 0, high = table.rows;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.row[middle].first_block <= static_cast<int>(blockIdx.x) ? low : high) = middle;
  }
  index = low;
  return table.row[low];
}

// In f64 of f64, else in Narrow.
template <class Narrow>
__device__ double sum_of_chunk(const Row& row, std::int64_t begin) {
  switch (row.dtype) {
    case Dtype::f64:
      return squares_of_chunk<double, double>(row, begin);
    case Dtype::f32:
      return squares_of_chunk<float, Narrow>(row, begin);
    case Dtype::bf16:
      return squares_of_chunk<bf16, Narrow>(row, begin);
    default:
      return squares_of_chunk<f16, Narrow>(row, begin);
  }
}

// kWide: in f64 whatever the dtype is, of those tensors whose sum in f32 is not usual.
template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    chunk_kernel(const __grid_constant__ Table table, const double* squares, double* partials) {
  int index;
  const Row& row = row_of_block(table, index);
  if (kWide && (row.dtype == Dtype::f64 || usual_squares(squares[index]))) return;
  const std::int64_t begin =
      (static_cast<std::int64_t>(blockIdx.x) - row.first_block) * kSquareChunk;
  const double sum = sum_of_chunk<std::conditional_t<kWide, double, float>>(row, begin);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// A block's 256 partial sums at a time become one, and those are joined like digits of a counter.
template <class C>
__device__ double joined_partials(const double* partials, std::int64_t n) {
  __shared__ C shared[kWarps];
  reduce_math::JoinCounter<Add, C, 40> sum;
  for (std::int64_t first = 0; first < n; first += kThreads) {
    const std::int64_t i = first + static_cast<int>(threadIdx.x);
    const C v[1] = {i < n ? static_cast<C>(partials[i]) : C(0)};
    sum.add(rd::join_warps<Add>(rd::join_warp<Add>(v), kWarps, shared));
  }
  return static_cast<double>(sum.result());
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    join_kernel(const __grid_constant__ Table table, const double* partials, double* squares) {
  const Row& row = table.row[blockIdx.x];
  const bool f64 = row.dtype == Dtype::f64;
  if (row.count == 0) {
    if (threadIdx.x == 0) squares[blockIdx.x] = 0;
    return;
  }
  if (kWide && (f64 || usual_squares(squares[blockIdx.x]))) return;
  const double* own = partials + row.first_block;
  const std::int64_t n = (row.count + kSquareChunk - 1) / kSquareChunk;
  __syncthreads();  // every thread has read squares
  const double sum =
      kWide || f64 ? joined_partials<double>(own, n) : joined_partials<float>(own, n);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

// What is joined to at most 32 partial sums, others would join with zeros.
template <class C>
__device__ double joined_by_warp(const double* partials, int n) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const C v[1] = {lane < n ? static_cast<C>(partials[lane]) : C(0)};
  return static_cast<double>(rd::join_warp<Add>(v));
}
__device__ void find_norm(const double* squares, std::int64_t n, const NormOver& over,
                          double* out) {
  const double scale = over.scale * (over.scale_there != nullptr ? *over.scale_there : 1.0);
  norm_and_factor_math(squares, n, over.highest, scale, out);
}
constexpr int kFewChunks = 256, kWarpChunks = 32;  // of all tensors, and of one

__global__ void __launch_bounds__(kThreads)
    finish_few(const __grid_constant__ Table table, double* partials, double* squares,
               NormOver over, double* out) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto chunks = [](const Row& row) {
    return static_cast<int>((row.count + kSquareChunk - 1) / kSquareChunk);
  };
  for (int i = warp; i < table.rows; i += kWarps) {
    const Row& row = table.row[i];
    const double* own = partials + row.first_block;
    const double sum = row.dtype == Dtype::f64 ? joined_by_warp<double>(own, chunks(row))
                                               : joined_by_warp<float>(own, chunks(row));
    if (threadIdx.x % 32 == 0) squares[i] = sum;
  }
  __syncthreads();
  for (int i = 0; i < table.rows; ++i) {
    const Row& row = table.row[i];
    if (row.count == 0 || row.dtype == Dtype::f64 || usual_squares(squares[i])) continue;
    double* own = partials + row.first_block;
    for (int k = 0; k < chunks(row); ++k) {
      const double sum = sum_of_chunk<double>(row, k * kSquareChunk);
      if (threadIdx.x == 0) own[k] = sum;
      __syncthreads();
    }
    if (warp == 0) {
      const double sum = joined_by_warp<double>(own, chunks(row));
      if (threadIdx.x == 0) squares[i] = sum;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) find_norm(squares, table.rows, over, out);
}

__global__ void norm_kernel(const double* squares, std::int64_t n, NormOver over, double* out) {
  find_norm(squares, n, over, out);
}
__global__ void adapt_kernel(LossScaleOptions options, const double* norm, LossScaleState* state) {
  (void)adapt_loss_scale(options, *norm, *state);
}
__global__ void ratio_kernel(const double* a, const double* b, std::int64_t n, double* out) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) out[i] = norm_ratio(a[i], b[i]);
}

__global__ void put_rows_kernel(std::uint16_t* table, const std::int64_t* rows,
                                const std::uint16_t* values, std::int64_t all, std::int64_t units) {
  const std::int64_t row = rows[blockIdx.x];
  if (row < 0 || row >= all) return;
  for (std::int64_t i = threadIdx.x; i < units; i += kThreads)
    table[row * units + i] = values[static_cast<std::int64_t>(blockIdx.x) * units + i];
}

Result<void> squares_of_table(const Stream& stream, const Table& table, int blocks,
                              double* partials, double* squares) {
  if (auto ok = launch(stream, "squares", chunk_kernel<false>, blocks, kThreads, table,
                       static_cast<const double*>(squares), partials);
      !ok)
    return ok;
  if (auto ok = launch(stream, "squares", join_kernel<false>, table.rows, kThreads, table,
                       static_cast<const double*>(partials), squares);
      !ok)
    return ok;
  if (auto ok = launch(stream, "squares", chunk_kernel<true>, blocks, kThreads, table,
                       static_cast<const double*>(squares), partials);
      !ok)
    return ok;
  return launch(stream, "squares", join_kernel<true>, table.rows, kThreads, table,
                static_cast<const double*>(partials), squares);
}

// Puts as many rows in the table as fit; the number of their chunks.
std::int64_t fill(Table& table, std::span<const SquareRow> rows) {
  table.rows = static_cast<int>(std::min<std::size_t>(kTableRows, rows.size()));
  std::int64_t chunks = 0;
  for (int i = 0; i < table.rows; ++i) {
    const SquareRow& r = rows[static_cast<std::size_t>(i)];
    table.row[i] = {r.data, r.count, static_cast<int>(chunks), r.dtype};
    chunks += ceil_div(r.count, kSquareChunk);
  }
  return chunks;
}

bool are_few(std::span<const SquareRow> rows) {
  std::int64_t all = 0;
  for (const SquareRow& r : rows) {
    const std::int64_t chunks = ceil_div(r.count, kSquareChunk);
    if (chunks > kWarpChunks) return false;
    all += chunks;
  }
  return all > 0 && all <= kFewChunks && rows.size() <= kTableRows;
}

}  // namespace

Result<void> squares_cuda(const Stream& stream, std::span<const SquareRow> rows, void* workspace,
                          double* squares) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  auto table = std::make_unique<Table>();
  auto* partials = static_cast<double*>(workspace);
  for (std::size_t first = 0; first < rows.size(); first += kTableRows) {
    const std::int64_t chunks = fill(*table, rows.subspan(first));
    if (auto ok =
            squares_of_table(stream, *table, static_cast<int>(chunks), partials, squares + first);
        !ok)
      return ok;
    partials += chunks;
  }
  return {};
}

Result<void> clip_cuda(const Stream& stream, std::span<const SquareRow> rows, void* workspace,
                       double* squares, const NormOver& over, double* out) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (!are_few(rows)) {
    if (auto ok = squares_cuda(stream, rows, workspace, squares); !ok) return ok;
    return launch(stream, "norm", norm_kernel, 1, 1, static_cast<const double*>(squares),
                  static_cast<std::int64_t>(rows.size()), over, out);
  }
  auto table = std::make_unique<Table>();
  const std::int64_t chunks = fill(*table, rows);
  auto* partials = static_cast<double*>(workspace);
  if (auto ok = launch(stream, "clip", chunk_kernel<false>, chunks, kThreads, *table,
                       static_cast<const double*>(squares), partials);
      !ok)
    return ok;
  return launch(stream, "clip", finish_few, 1, kThreads, *table, partials, squares, over, out);
}

Result<void> adapt_cuda(const Stream& stream, const LossScaleOptions& options, const double* norm,
                        LossScaleState* state) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return launch(stream, "loss scale", adapt_kernel, 1, 1, options, norm, state);
}
Result<void> ratios_cuda(const Stream& stream, const double* a, const double* b, std::int64_t n,
                         double* out) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return launch(stream, "ratios", ratio_kernel, ceil_div(n, kThreads), kThreads, a, b, n, out);
}

Result<void> put_rows_cuda(const Stream& stream, void* table, const std::int64_t* rows,
                           const void* values, std::int64_t count, std::int64_t all,
                           std::int64_t bytes) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return launch(stream, "put rows", put_rows_kernel, count, kThreads,
                static_cast<std::uint16_t*>(table), rows, static_cast<const std::uint16_t*>(values),
                all, bytes / 2);
}

}  // namespace planck::optim
