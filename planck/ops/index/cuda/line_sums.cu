// "cuda:lines": scatter_add and index_add of floats where a line of items and a line of out fit one
// block.
//
// The items of a line are sorted by what they are added to, stably, in shared memory; then equal
// ones lie side by side. Threads at every 64th of them sum a chunk each, threads at the first sum
// up the chunks: the canonical order, for one hit or four thousand.
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>

#include "planck/math/chunked_sum.h"
#include "planck/ops/index/cuda/kernels.h"
#include "planck/ops/index/cuda/line_sums.h"
#include "planck/ops/index/cuda/move.cuh"
#include "planck/ops/index/cuda/stored.cuh"

namespace planck {

namespace index_device {

namespace {

// Operands index, source, x, out; lines of the items, without the axis.
struct LineSums {
  DeviceNest<4> nest;
  Indices index;
  const void *source, *x;  // x: null for zeros
  void* out;
  std::int64_t step[4];  // along the axis
  Dtype dtype;
  int length, extent;  // of the axis: items, elements of out
  int key_bits;
  unsigned long long* bad;
};

template <class C, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads) sum_lines(const __grid_constant__ LineSums a) {
  constexpr int kMost = kThreads * kItems;
  using Exchange = cub::BlockExchange<std::uint16_t, kThreads, kItems>;
  using Sort = cub::BlockRadixSort<std::uint16_t, kThreads, kItems, std::uint16_t>;
  using Scan = cub::BlockScan<int, kThreads>;
  struct Sorted {
    C value[kMost];  // in the order of the source, then sums of chunks
    std::uint16_t key[kMost + 1], position[kMost];
    std::uint16_t first[kMost];  // where an element's items begin; kMost: it has none
    typename Scan::TempStorage scan;
  };
  __shared__ union Shared {
    typename Exchange::TempStorage exchange;
    typename Sort::TempStorage sort;
    Sorted sorted;
    __device__ Shared() {}
  } shared;
  std::int64_t at[4];
  a.nest.at(blockIdx.x, at);
  const int thread = static_cast<int>(threadIdx.x);

  // Keys: what is added to; `extent` for bad indices and for places beyond the line.
  std::uint16_t keys[kItems], positions[kItems];
  int bad = 0;
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int i = k * kThreads + thread;
    const std::int64_t chosen = i < a.length ? a.index[at[0] + i * a.step[0]] : a.extent;
    const bool wrong = outside(chosen, a.extent);
    bad += wrong && i < a.length;
    keys[k] = static_cast<std::uint16_t>(wrong ? a.extent : chosen);
  }
  count_bad(a.bad, bad);
  Exchange(shared.exchange).StripedToBlocked(keys, keys);
#pragma unroll
  for (int k = 0; k < kItems; ++k) positions[k] = static_cast<std::uint16_t>(thread * kItems + k);
  __syncthreads();
  Sort(shared.sort).Sort(keys, positions, 0, a.key_bits);
  __syncthreads();

  Sorted& s = shared.sorted;
  const auto none = static_cast<std::uint16_t>(a.extent);
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    s.key[thread * kItems + k] = keys[k];
    s.position[thread * kItems + k] = positions[k];
    const int i = k * kThreads + thread;
    if (i < a.length) s.value[i] = load<C>(a.source, a.dtype, at[1] + i * a.step[1]);
    s.first[i] = kMost;
  }
  if (thread == 0) s.key[kMost] = none;
  __syncthreads();

  // Where the items of each key begin.
  int starts[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int i = thread * kItems + k;
    const bool head = i == 0 || s.key[i - 1] != keys[k];
    starts[k] = head ? i : 0;
    if (head && keys[k] != none) s.first[keys[k]] = static_cast<std::uint16_t>(i);
  }
  Scan(s.scan).InclusiveScan(starts, starts, [](int p, int q) { return p < q ? q : p; });

  C sums[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int i = thread * kItems + k;
    if (keys[k] == none || (i - starts[k]) % kSumChunk != 0) continue;
    C sum = s.value[positions[k]];
    for (int j = i + 1; j < i + kSumChunk && s.key[j] == keys[k]; ++j)
      sum = sum + s.value[s.position[j]];
    sums[k] = sum;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int i = thread * kItems + k;
    if (keys[k] != none && (i - starts[k]) % kSumChunk == 0) s.value[i] = sums[k];
  }
  __syncthreads();

  for (int e = thread; e < a.extent; e += kThreads) {
    const std::int64_t from = at[2] + e * a.step[2];
    const std::int64_t to = at[3] + e * a.step[3];
    const int first = s.first[e];
    if (first == kMost) {
      copy<C>(a.x, from, a.out, to, a.dtype);
      continue;
    }
    C sum = s.value[first];
    for (int j = first + kSumChunk; j < kMost && s.key[j] == e; j += kSumChunk)
      sum = sum + s.value[j];
    if (a.x != nullptr) sum = load<C>(a.x, a.dtype, from) + sum;
    store(a.out, a.dtype, to, sum);
  }
}

template <class C>
Result<void> launch_lines(const Stream& stream, const LineSums& a) {
  const int most = std::max(a.length, a.extent);
  const auto go = [&](auto kernel, int threads) {
    return launch(stream, "scatter_add", kernel, a.nest.total, threads, a);
  };
  if (most <= 256) return go(sum_lines<C, 64, 4>, 64);
  if (most <= 1024) return go(sum_lines<C, 128, 8>, 128);
  static_assert(kMostDeviceLine == 256 * 8);
  return go(sum_lines<C, 256, 8>, 256);
}

}  // namespace

}  // namespace index_device

using namespace index_device;

Result<void> index_line_sums_cuda(const Stream& stream, Workspace, const IndexProblem& p,
                                  const Operands& o) {
  using O = index_operand::Write;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const View &index = o[O::index], &source = o[O::source], &out = o[O::out];
  const auto bad = clear_counter(stream, o[O::bad_indices], "scatter_add");
  if (!bad) return tl::unexpected(bad.error());
  if (p.by_slice())
    if (auto ok = count_list(stream, index, p.extent(), *bad); !ok) return ok;
  Shape lines = p.items();
  bool all = true;  // lines of out get items
  for (int d = 0; d < p.x.rank(); ++d) all &= d == p.axis || lines[d] == p.x[d];
  if (!all)
    if (auto ok = index_device::copy_elements(stream, p.with_x ? o[O::x] : View{}, out); !ok)
      return ok;
  lines[p.axis] = 1;
  const Strides of_index = index_detail::index_strides(p, index);
  const Strides of_x = p.with_x ? o[O::x].strides : out.strides;
  Nest nest = nest_over(lines, {of_index, source.strides, of_x, out.strides});
  if (nest.total() == 0) return {};
  collapse(nest);
  int key_bits = 1;
  while ((std::int64_t{1} << key_bits) <= p.extent()) ++key_bits;
  const LineSums a = {DeviceNest<4>::of(nest),
                      Indices(index),
                      source.data,
                      p.with_x ? o[O::x].data : nullptr,
                      out.data,
                      {of_index[p.axis], source.strides[p.axis], of_x[p.axis], out.strides[p.axis]},
                      p.element_dtype,
                      static_cast<int>(p.items()[p.axis]),
                      static_cast<int>(p.extent()),
                      key_bits,
                      p.by_slice() ? nullptr : *bad};
  return p.element_dtype == Dtype::f64 ? launch_lines<double>(stream, a)
                                       : launch_lines<float>(stream, a);
}

}  // namespace planck
