// "cuda:ranks": elements chosen by a mask, in row-major order.
//
//   count_tiles   chosen elements of each tile
//   scan_tiles    those before each tile, and of all, by one block
//   place         each tile ranks its elements by a scan and moves the chosen ones
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "planck/loops/cuda/pack.cuh"
#include "planck/ops/index/cuda/kernels.h"
#include "planck/ops/index/cuda/masks.h"
#include "planck/ops/index/cuda/move.cuh"

namespace planck {

namespace index_device {

namespace {

// Operands mask, other (x, or out of mask_scatter); strides of `other` in bytes.
struct Masked {
  DeviceNest<2> nest;
  const std::uint8_t* mask;
  std::int64_t* firsts;  // [tiles + 1]
};

// A thread's items are kMaskThreads apart, so that neighbours read neighbours; ranks go round by
// round.
__device__ __forceinline__ std::int64_t position_of(int item) {
  return std::int64_t{blockIdx.x} * kMaskTile + item * kMaskThreads + threadIdx.x;
}

__global__ void __launch_bounds__(kMaskThreads) count_tiles(const __grid_constant__ Masked m) {
  int count = 0;
#pragma unroll
  for (int k = 0; k < kMaskItems; ++k) {
    const std::int64_t p = position_of(k);
    std::int64_t at[2];
    m.nest.at(p < m.nest.total ? p : 0, at);
    count += p < m.nest.total && m.mask[at[0]] != 0;
  }
  using Reduce = cub::BlockReduce<int, kMaskThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const int sum = Reduce(storage).Sum(count);
  if (threadIdx.x == 0) m.firsts[blockIdx.x] = sum;
}

constexpr int kScanThreads = 1024;

__global__ void __launch_bounds__(kScanThreads)
    scan_tiles(std::int64_t* firsts, std::int64_t tiles, std::int64_t* count) {
  using Scan = cub::BlockScan<std::int64_t, kScanThreads>;
  __shared__ typename Scan::TempStorage storage;
  std::int64_t before = 0;
  for (std::int64_t begin = 0; begin < tiles; begin += kScanThreads) {
    const std::int64_t tile = begin + threadIdx.x;
    std::int64_t first, sum;
    Scan(storage).ExclusiveSum(tile < tiles ? firsts[tile] : 0, first, sum);
    if (tile < tiles) firsts[tile] = before + first;
    before += sum;
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  firsts[tiles] = before;
  if (count != nullptr) *count = before;
}

enum class Placing { values, positions, scattered };

struct Place {
  Masked masked;
  const char* from;   // x, or values; null: zeros
  const char* start;  // scattered: x, of the strides below
  DeviceNest<1> start_nest;
  char* to;
  std::int64_t list_bytes;  // from one element of the list to the next
};

template <int kBytes, Placing kPlacing>
__global__ void __launch_bounds__(kMaskThreads) place(const __grid_constant__ Place a) {
  const Masked& m = a.masked;
  // How many each warp chooses in each round, then how many come before it.
  constexpr int kWarps = kMaskThreads / 32;
  __shared__ int before[kMaskItems * kWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  unsigned votes[kMaskItems];
#pragma unroll
  for (int k = 0; k < kMaskItems; ++k) {
    const std::int64_t p = position_of(k);
    std::int64_t at[2];
    m.nest.at(p < m.nest.total ? p : 0, at);
    votes[k] = __ballot_sync(~0u, p < m.nest.total && m.mask[at[0]] != 0);
    if (lane == 0) before[k * kWarps + warp] = __popc(votes[k]);
  }
  __syncthreads();
  static_assert(kMaskItems * kWarps <= kMaskThreads);
  using Scan = cub::BlockScan<int, kMaskThreads>;
  __shared__ typename Scan::TempStorage storage;
  int rank = static_cast<int>(threadIdx.x) < kMaskItems * kWarps ? before[threadIdx.x] : 0;
  Scan(storage).ExclusiveSum(rank, rank);
  if (static_cast<int>(threadIdx.x) < kMaskItems * kWarps) before[threadIdx.x] = rank;
  __syncthreads();
  const std::int64_t first = m.firsts[blockIdx.x], all = m.firsts[gridDim.x];
#pragma unroll
  for (int k = 0; k < kMaskItems; ++k) {
    const std::int64_t p = position_of(k);
    if (p >= m.nest.total) break;
    const bool chosen = votes[k] >> lane & 1;
    const std::int64_t place =
        first + before[k * kWarps + warp] + __popc(votes[k] & ((1u << lane) - 1));
    std::int64_t at[2];
    if constexpr (kPlacing == Placing::positions) {
      if (chosen) *reinterpret_cast<std::int64_t*>(a.to + place * a.list_bytes) = p;
      if (p >= all) *reinterpret_cast<std::int64_t*>(a.to + p * a.list_bytes) = -1;
    } else if constexpr (kPlacing == Placing::values) {
      m.nest.at(p, at);
      if (chosen)
        store_pack<false>(a.to + place * a.list_bytes, 0,
                          load_pack<kBytes, true>(a.from + at[1], 0));
      if (p >= all) store_pack<false>(a.to + p * a.list_bytes, 0, Pack<kBytes>{});
    } else {
      m.nest.at(p, at);
      Pack<kBytes> value = {};
      if (chosen) {
        value = load_pack<kBytes, false>(a.from + place * a.list_bytes, 0);
      } else if (a.start != nullptr) {
        std::int64_t start[1];
        a.start_nest.at(p, start);
        value = load_pack<kBytes, true>(a.start + start[0], 0);
      }
      store_pack<false>(a.to + at[1], 0, value);
    }
  }
}

DeviceNest<1> nest_of(const View& v, std::int64_t element) {
  Strides bytes;
  for (std::int64_t s : v.strides) bytes.push_back(s * element);
  Nest nest = nest_over(v.shape, {bytes});
  collapse(nest);
  return DeviceNest<1>::of(nest);
}

Result<void> rank_tiles(const Stream& stream, const Masked& m, std::int64_t* count) {
  const std::int64_t tiles = MaskLayout(m.nest.total).tiles;
  if (auto ok = launch(stream, "mask", count_tiles, tiles, kMaskThreads, m); !ok) return ok;
  return launch(stream, "mask", scan_tiles, 1, kScanThreads, m.firsts, tiles, count);
}

}  // namespace

}  // namespace index_device

using namespace index_device;

Result<void> index_masks_cuda(const Stream& stream, Workspace workspace, const IndexProblem& p,
                              const Operands& o) {
  using S = index_operand::MaskSelect;
  using N = index_operand::Nonzero;
  using M = index_operand::MaskScatter;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const bool lists = p.kind == IndexKind::nonzero, scatters = p.kind == IndexKind::mask_scatter;
  const View& mask = lists ? o[N::mask] : o[S::mask];
  const View& other = lists ? mask : scatters ? o[M::out] : o[S::x];
  const View& list = lists ? o[N::positions] : o[S::values];
  auto* count =
      scatters ? nullptr : static_cast<std::int64_t*>((lists ? o[N::count] : o[S::count]).data);
  if (numel(p.x) == 0) {
    if (count == nullptr) return {};
    return cuda_result(cudaMemsetAsync(count, 0, 8, native(stream)), "mask");
  }
  const auto element = static_cast<std::int64_t>(storage_bytes(p.element_dtype));
  Strides bytes;
  for (std::int64_t s : other.strides) bytes.push_back(s * element);
  Nest nest = nest_over(p.x, {mask.strides, bytes});
  collapse(nest);
  Place a = {};
  a.masked = {DeviceNest<2>::of(nest), static_cast<const std::uint8_t*>(mask.data),
              static_cast<std::int64_t*>(workspace.data)};
  a.list_bytes = list.strides[0] * (lists ? 8 : element);
  if (auto ok = rank_tiles(stream, a.masked, count); !ok) return ok;
  const std::int64_t tiles = MaskLayout(a.masked.nest.total).tiles;
  if (lists) {
    a.to = static_cast<char*>(list.data);
    return launch(stream, "nonzero", place<8, Placing::positions>, tiles, kMaskThreads, a);
  }
  a.from = static_cast<const char*>(scatters ? list.data : other.data);
  a.to = static_cast<char*>(scatters ? other.data : list.data);
  if (scatters && p.with_x) {
    a.start = static_cast<const char*>(o[M::x].data);
    a.start_nest = nest_of(o[M::x], element);
  }
  return with_bytes(static_cast<std::size_t>(element), [&]<int kBytes>() {
    if constexpr (kBytes <= 8)
      return scatters ? launch(stream, "mask_scatter", place<kBytes, Placing::scattered>, tiles,
                               kMaskThreads, a)
                      : launch(stream, "mask_select", place<kBytes, Placing::values>, tiles,
                               kMaskThreads, a);
    else
      return Result<void>{};
  });
}

}  // namespace planck
