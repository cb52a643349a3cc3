// "cuda:radix": rows of any length, by the toolkit's device-wide radix sort.
//
// The rows of a batch are sorted by key all together, and then, stably, by row: twice a few passes
// over dense memory, however long or short the rows are. A batch of one row needs the first alone.
#include <cub/device/device_radix_sort.cuh>

#include "planck/ops/sort/cuda/kernels.h"
#include "planck/ops/sort/cuda/layout.h"
#include "planck/ops/sort/cuda/rows.cuh"
#include "planck/ops/sort/host/pairs.h"

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
Result<void> sort_batch(const Stream& stream, const SortProblem& p, const DeviceRows& rows,
                        const RadixLayout& l, char* base, std::int64_t first, std::int64_t many) {
  const std::int64_t count = many * p.length(), kept = many * p.kept();
  const Divisor by_length(static_cast<std::uint32_t>(p.length()));
  U* const keys[] = {reinterpret_cast<U*>(base + l.keys[0]),
                     reinterpret_cast<U*>(base + l.keys[1])};
  std::uint32_t* const positions[] = {reinterpret_cast<std::uint32_t*>(base + l.positions[0]),
                                      reinterpret_cast<std::uint32_t*>(base + l.positions[1])};
  if (auto ok = launch(stream, "sort", make_pairs<U>, ceil_div(count, kThreads), kThreads, rows,
                       first, by_length, count, keys[0], positions[0]);
      !ok)
    return ok;
  void* temporary = base + l.temporary;
  const auto by_key = sort_pairs(stream, temporary, keys, positions, count, bits(p.element_dtype));
  if (!by_key) return tl::unexpected(by_key.error());
  int sorted = *by_key;
  if (many > 1) {
    std::uint32_t* const row_keys[] = {reinterpret_cast<std::uint32_t*>(base + l.keys[0]),
                                       reinterpret_cast<std::uint32_t*>(base + l.keys[1])};
    std::uint32_t* const in_order[] = {positions[sorted], positions[1 - sorted]};
    if (auto ok = launch(stream, "sort", make_row_keys, ceil_div(count, kThreads), kThreads,
                         in_order[0], by_length, count, row_keys[0]);
        !ok)
      return ok;
    int row_bits = 1;
    while ((std::int64_t{1} << row_bits) < many) ++row_bits;
    const auto by_row = sort_pairs(stream, temporary, row_keys, in_order, count, row_bits);
    if (!by_row) return tl::unexpected(by_row.error());
    if (*by_row == 1) sorted = 1 - sorted;
  }
  return launch(stream, "sort", store_rows, ceil_div(kept, kThreads), kThreads, rows, first,
                Divisor(static_cast<std::uint32_t>(p.kept())), kept, positions[sorted]);
}

}  // namespace

template <class U>
Result<int> sort_pairs(const Stream& stream, void* temporary, U* const (&keys)[2],
                       std::uint32_t* const (&positions)[2], std::int64_t count, int key_bits) {
  cub::DoubleBuffer<U> both_keys(keys[0], keys[1]);
  cub::DoubleBuffer<std::uint32_t> both(positions[0], positions[1]);
  std::size_t need = 0;
  const auto n = static_cast<int>(count);
  if (auto ok = cuda_result(cub::DeviceRadixSort::SortPairs(nullptr, need, both_keys, both, n, 0,
                                                            key_bits, native(stream)),
                            "sort");
      !ok)
    return tl::unexpected(ok.error());
  if (need > temporary_bytes_for(count))
    return fail(ErrorCode::device, "sort: the device's radix sort needs " + std::to_string(need) +
                                       " bytes, " + std::to_string(temporary_bytes_for(count)) +
                                       " were set aside");
  if (auto ok = cuda_result(cub::DeviceRadixSort::SortPairs(temporary, need, both_keys, both, n, 0,
                                                            key_bits, native(stream)),
                            "sort");
      !ok)
    return tl::unexpected(ok.error());
  return both.selector;
}

template Result<int> sort_pairs(const Stream&, void*, std::uint32_t* const (&)[2],
                                std::uint32_t* const (&)[2], std::int64_t, int);
template Result<int> sort_pairs(const Stream&, void*, std::uint64_t* const (&)[2],
                                std::uint32_t* const (&)[2], std::int64_t, int);

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
