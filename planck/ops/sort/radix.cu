// "cuda:radix": rows of any length, by the toolkit's device-wide radix sort.
//
// The rows of a batch are sorted by key all together, and then, stably, by row: twice a few passes
// over dense memory, however long or short the rows are. A batch of one row needs the first alone.
#include <cub/device/device_radix_sort.cuh>

#include "planck/ops/sort/device_layout.h"
#include "planck/ops/sort/kernels.h"
#include "planck/ops/sort/rows.cuh"

namespace planck {

namespace sort_device {

namespace {

constexpr int kThreads = 256;

// Element i of the batch: key, and i itself.
template <class U>
__global__ void __launch_bounds__(kThreads)
    make_pairs(const __grid_constant__ DeviceRows rows, std::int64_t first, Divisor by_length,
               std::int64_t count, U* keys, std::uint32_t* positions) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const std::uint32_t row = by_length.quotient(static_cast<std::uint32_t>(i));
  std::int64_t at[3];
  rows.nest.at(first + row, at);
  keys[i] = rows.key<U>(at[0] + (i - row * rows.length) * rows.step[0]);
  positions[i] = static_cast<std::uint32_t>(i);
}

__global__ void __launch_bounds__(kThreads)
    make_row_keys(const std::uint32_t* positions, Divisor by_length, std::int64_t count,
                  std::uint32_t* keys) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) keys[i] = by_length.quotient(positions[i]);
}

__global__ void __launch_bounds__(kThreads)
    store_rows(const __grid_constant__ DeviceRows rows, std::int64_t first, Divisor by_kept,
               std::int64_t count, const std::uint32_t* positions) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t row = by_kept.quotient(static_cast<std::uint32_t>(i));
  const std::int64_t rank = i - row * rows.kept;
  std::int64_t at[3];
  rows.nest.at(first + row, at);
  rows.store(at, rank, std::int64_t{positions[row * rows.length + rank]} - row * rows.length);
}

template <class U>
Result<void> sort_pairs(const Stream& stream, const RadixLayout& l, char* base,
                        cub::DoubleBuffer<U>& keys, cub::DoubleBuffer<std::uint32_t>& positions,
                        std::int64_t count, int key_bits) {
  std::size_t need = 0;
  const auto n = static_cast<int>(count);
  if (auto ok = cuda_result(cub::DeviceRadixSort::SortPairs(nullptr, need, keys, positions, n, 0,
                                                            key_bits, native(stream)),
                            "sort");
      !ok)
    return ok;
  if (need > l.temporary_bytes)
    return fail(ErrorCode::device, "sort: the device's radix sort needs " + std::to_string(need) +
                                       " bytes, " + std::to_string(l.temporary_bytes) +
                                       " were set aside");
  return cuda_result(cub::DeviceRadixSort::SortPairs(base + l.temporary, need, keys, positions, n,
                                                     0, key_bits, native(stream)),
                     "sort");
}

template <class U>
Result<void> sort_batch(const Stream& stream, const SortProblem& p, const DeviceRows& rows,
                        const RadixLayout& l, char* base, std::int64_t first, std::int64_t many) {
  const std::int64_t count = many * p.length(), kept = many * p.kept();
  const Divisor by_length(static_cast<std::uint32_t>(p.length()));
  cub::DoubleBuffer<U> keys(reinterpret_cast<U*>(base + l.keys[0]),
                            reinterpret_cast<U*>(base + l.keys[1]));
  cub::DoubleBuffer<std::uint32_t> positions(
      reinterpret_cast<std::uint32_t*>(base + l.positions[0]),
      reinterpret_cast<std::uint32_t*>(base + l.positions[1]));
  if (auto ok = launch(stream, "sort", make_pairs<U>, ceil_div(count, kThreads), kThreads, rows,
                       first, by_length, count, keys.Current(), positions.Current());
      !ok)
    return ok;
  if (auto ok = sort_pairs(stream, l, base, keys, positions, count, bits(p.element_dtype)); !ok)
    return ok;
  if (many > 1) {
    cub::DoubleBuffer<std::uint32_t> by_row(reinterpret_cast<std::uint32_t*>(base + l.keys[0]),
                                            reinterpret_cast<std::uint32_t*>(base + l.keys[1]));
    if (auto ok = launch(stream, "sort", make_row_keys, ceil_div(count, kThreads), kThreads,
                         positions.Current(), by_length, count, by_row.Current());
        !ok)
      return ok;
    int row_bits = 1;
    while ((std::int64_t{1} << row_bits) < many) ++row_bits;
    if (auto ok = sort_pairs(stream, l, base, by_row, positions, count, row_bits); !ok) return ok;
  }
  return launch(stream, "sort", store_rows, ceil_div(kept, kThreads), kThreads, rows, first,
                Divisor(static_cast<std::uint32_t>(p.kept())), kept, positions.Current());
}

}  // namespace

}  // namespace sort_device

Result<void> sort_radix_cuda(const Stream& stream, Workspace workspace, const SortProblem& p,
                             const Operands& o) {
  using namespace sort_device;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  if (numel(p.x) == 0 || p.kept() == 0) return {};
  const DeviceRows rows = DeviceRows::of(p, o);
  const RadixLayout l(p);
  auto* base = static_cast<char*>(workspace.data);
  for (std::int64_t first = 0; first < p.rows(); first += l.rows) {
    const std::int64_t many = std::min(l.rows, p.rows() - first);
    auto ok = rows.bytes == 8 ? sort_batch<std::uint64_t>(stream, p, rows, l, base, first, many)
                              : sort_batch<std::uint32_t>(stream, p, rows, l, base, first, many);
    if (!ok) return ok;
  }
  return {};
}

}  // namespace planck
