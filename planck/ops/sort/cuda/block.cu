// "cuda:block": a row that fits is sorted by one block, in shared memory.
//
// Keys are sorted with their positions, stably, by digits of the key; places beyond the row hold
// the largest key and come after every element that has it too. Values are fetched by position.
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_radix_sort.cuh>

#include "planck/ops/sort/cuda/kernels.h"
#include "planck/ops/sort/cuda/rows.cuh"

namespace planck {

namespace sort_device {

namespace {

template <class U, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    sort_rows(const __grid_constant__ DeviceRows rows, int key_bits) {
  using Exchange = cub::BlockExchange<U, kThreads, kItems>;
  using Sort = cub::BlockRadixSort<U, kThreads, kItems, std::uint16_t>;
  __shared__ union {
    typename Exchange::TempStorage exchange;
    typename Sort::TempStorage sort;
  } shared;
  std::int64_t at[3];
  rows.nest.at(blockIdx.x, at);
  U keys[kItems];
  std::uint16_t positions[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int i = k * kThreads + static_cast<int>(threadIdx.x);
    keys[k] = i < rows.length ? rows.key<U>(at[0] + i * rows.step[0]) : ~U{0};
  }
  Exchange(shared.exchange).StripedToBlocked(keys, keys);
#pragma unroll
  for (int k = 0; k < kItems; ++k)
    positions[k] = static_cast<std::uint16_t>(threadIdx.x * kItems + k);
  __syncthreads();
  Sort(shared.sort).SortBlockedToStriped(keys, positions, 0, key_bits);
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int rank = k * kThreads + static_cast<int>(threadIdx.x);
    if (rank < rows.kept) rows.store(at, rank, positions[k]);
  }
}

template <class U>
Result<void> launch_rows(const Stream& stream, const SortProblem& p, const DeviceRows& rows) {
  const int key_bits = bits(p.element_dtype);
  const auto go = [&](auto kernel, int threads) {
    return launch(stream, "sort", kernel, p.rows(), threads, rows, key_bits);
  };
  if (p.length() <= 128) return go(sort_rows<U, 32, 4>, 32);
  if (p.length() <= 512) return go(sort_rows<U, 64, 8>, 64);
  if (p.length() <= 1024) return go(sort_rows<U, 128, 8>, 128);
  if (p.length() <= 2048) return go(sort_rows<U, 256, 8>, 256);
  static_assert(kMostBlockRow == 256 * 16);
  return go(sort_rows<U, 256, 16>, 256);
}

}  // namespace

}  // namespace sort_device

Result<void> sort_block_cuda(const Stream& stream, Workspace, const SortProblem& p,
                             const Operands& o) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  if (numel(p.x) == 0 || p.kept() == 0) return {};
  const auto rows = sort_device::DeviceRows::of(p, o);
  return rows.bytes == 8 ? sort_device::launch_rows<std::uint64_t>(stream, p, rows)
                         : sort_device::launch_rows<std::uint32_t>(stream, p, rows);
}

}  // namespace planck
