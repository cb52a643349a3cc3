// "cuda:sorted_items": scatter_add, and index_add along the last axis, of many floats.
//
// Items are sorted by their target's row-major position, stably; those of one target are a run.
//   add_chunks   a thread at every 64th item of a run sums a chunk. A run of one chunk is done;
//                chunks of longer ones are kept, and the run is put on a list
//   finish_runs  a block for each long run: chunks of chunks, until one is left
//
// H200, 2^24 items, f32, ms, uniform / all for one: by the embedding's rows of one element 1.69 /
// 1.46.
#include "planck/ops/index/index.cuda.h"
#include "planck/ops/index/item_sums.h"
#include "planck/ops/index/nest.cuh"
#include "planck/ops/index/stored.cuh"

namespace planck {

namespace index_device {

namespace {

constexpr int kThreads = 256, kFinishThreads = 256, kFinishBlocks = 1024;

// Operands index, and out's line in row-major order; over the items in row-major order.
struct MakeKeys {
  DeviceNest<2> nest;
  Indices index;
  std::int64_t extent, axis_stride;
  std::uint32_t none;  // the key of a bad index: after all others
  std::uint32_t *keys, *positions;
  unsigned long long* bad;
};

__global__ void __launch_bounds__(kMoveThreads) make_pairs(const __grid_constant__ MakeKeys a) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kMoveThreads * kMoveItems) + threadIdx.x;
  std::int64_t at[kMoveItems][2], chosen[kMoveItems];
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k) {
    const std::int64_t p = first + k * kMoveThreads;
    a.nest.at(p < a.nest.total ? p : 0, at[k]);
    chosen[k] = a.index[at[k][0]];
  }
  int bad = 0;
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k) {
    const std::int64_t p = first + k * kMoveThreads;
    if (p >= a.nest.total) break;
    const bool wrong = outside(chosen[k], a.extent);
    bad += wrong;
    a.keys[p] = wrong ? a.none : static_cast<std::uint32_t>(at[k][1] + chosen[k] * a.axis_stride);
    a.positions[p] = static_cast<std::uint32_t>(p);
  }
  count_bad(a.bad, bad);
}

template <class C>
struct ItemSums {
  const std::uint32_t *keys, *positions;  // sorted
  std::uint32_t count, none;
  DeviceNest<1> source_nest;
  DeviceNest<2> out_nest;  // x, out; by key
  const void *source, *x;  // x: null for zeros
  void* out;
  Dtype dtype;
  C* partials;
  std::uint32_t *runs, *many;  // where long ones begin

  __device__ __forceinline__ C value(std::uint32_t i) const {
    std::int64_t at[1];
    source_nest.at(positions[i], at);
    return load<C>(source, dtype, at[0]);
  }
  __device__ __forceinline__ void put(std::uint32_t key, C sum) const {
    std::int64_t at[2];
    out_nest.at(key, at);
    if (x != nullptr) sum = load<C>(x, dtype, at[0]) + sum;
    store(out, dtype, at[1], sum);
  }
  // Of the chunk that begins so many chunks after sorted item `start`: chunks begin in 64ths of the
  // list of their own, but for the first of a run.
  __device__ __forceinline__ C& partial(std::uint32_t start, std::uint32_t chunk) const {
    return partials[2 * (std::int64_t{start} / kSumChunk + chunk) + (chunk == 0)];
  }
  // The first sorted item in [low, high) whose key is `key` or more, or more than it.
  __device__ __forceinline__ std::uint32_t bound(std::uint32_t key, std::uint32_t low,
                                                 std::uint32_t high, bool more) const {
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (more ? keys[middle] <= key : keys[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

template <class C>
__global__ void __launch_bounds__(kThreads) add_chunks(const __grid_constant__ ItemSums<C> a) {
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  const bool inside = i < a.count;
  const std::uint32_t key = inside ? a.keys[i] : a.none;
  const bool valid = key != a.none;
  const bool head = valid && (i == 0 || a.keys[i - 1] != key);
  // In a later chunk the run's start is searched, once a warp for each run.
  std::uint32_t start = i;
  const bool later = valid && i >= kSumChunk && a.keys[i - kSumChunk] == key;
  bool waits = later;
  for (unsigned waiting; (waiting = __ballot_sync(~0u, waits)) != 0;) {
    const int leader = __ffs(static_cast<int>(waiting)) - 1;
    const std::uint32_t wanted = __shfl_sync(~0u, key, leader);
    std::uint32_t found = 0;
    if (static_cast<int>(threadIdx.x % 32) == leader) found = a.bound(wanted, 0, i, false);
    found = __shfl_sync(~0u, found, leader);
    if (waits && key == wanted) {
      start = found;
      waits = false;
    }
  }
  if (!head && !(later && (i - start) % kSumChunk == 0)) return;
  const std::uint32_t left = a.count - i;
  const std::uint32_t reach = left < kSumChunk ? left : kSumChunk;
  const std::uint32_t end =
      a.keys[i + reach - 1] == key ? i + reach : a.bound(key, i, i + reach - 1, true);
  C sum = a.value(i);
#pragma unroll 4
  for (std::uint32_t j = i + 1; j < end; ++j) sum = sum + a.value(j);
  const bool goes_on = left > kSumChunk && a.keys[i + kSumChunk] == key;
  if (head && !goes_on) return a.put(key, sum);
  a.partial(start, (i - start) / kSumChunk) = sum;
  if (head) a.runs[atomicAdd(a.many, 1u)] = i;
}

template <class C>
__global__ void __launch_bounds__(kFinishThreads)
    finish_runs(const __grid_constant__ ItemSums<C> a) {
  __shared__ std::uint32_t end;
  for (std::uint32_t r = blockIdx.x; r < *a.many; r += gridDim.x) {
    const std::uint32_t start = a.runs[r], key = a.keys[start];
    __syncthreads();
    if (threadIdx.x == 0) end = a.bound(key, start, a.count, true);
    __syncthreads();
    // Sums of 64 replace the first of the values they are made of, which no one reads again.
    for (auto m = static_cast<std::uint32_t>(sum_chunks(std::int64_t{end} - start)); m > 1;) {
      const auto next = static_cast<std::uint32_t>(sum_chunks(std::int64_t{m}));
      for (std::uint32_t begin = 0; begin < next; begin += kFinishThreads) {
        const std::uint32_t c = begin + threadIdx.x;
        C sum = 0;
        if (c < next) {
          const std::uint32_t first = c * kSumChunk;
          const std::uint32_t stop = first + kSumChunk < m ? first + kSumChunk : m;
          sum = a.partial(start, first);
#pragma unroll 4
          for (std::uint32_t j = first + 1; j < stop; ++j) sum = sum + a.partial(start, j);
        }
        __syncthreads();
        if (c < next) a.partial(start, c) = sum;
        __syncthreads();
      }
      m = next;
    }
    if (threadIdx.x == 0) a.put(key, a.partial(start, 0));
  }
}

template <class C>
Result<void> launch_sums(const Stream& stream, const ItemSumLayout& l, ItemSums<C> a, char* base) {
  a.partials = reinterpret_cast<C*>(base + l.partials);
  a.runs = reinterpret_cast<std::uint32_t*>(base + l.runs);
  a.many = reinterpret_cast<std::uint32_t*>(base + l.counter);
  if (auto ok = cuda_result(cudaMemsetAsync(a.many, 0, 4, native(stream)), "scatter_add"); !ok)
    return ok;
  if (auto ok =
          launch(stream, "scatter_add", add_chunks<C>, ceil_div(l.count, kThreads), kThreads, a);
      !ok)
    return ok;
  return launch(stream, "scatter_add", finish_runs<C>, kFinishBlocks, kFinishThreads, a);
}

template <class C>
Result<void> sum_items(const Stream& stream, const IndexProblem& p, const Operands& o,
                       const ItemSumLayout& l, char* base, int sorted) {
  using O = index_operand::Write;
  ItemSums<C> a = {};
  a.keys = reinterpret_cast<std::uint32_t*>(base + l.keys[sorted]);
  a.positions = reinterpret_cast<std::uint32_t*>(base + l.positions[sorted]);
  a.count = static_cast<std::uint32_t>(l.count);
  a.none = static_cast<std::uint32_t>(numel(p.x));
  Nest source = index_detail::nest_over(p.items(), {o[O::source].strides});
  collapse(source);
  a.source_nest = DeviceNest<1>::of(source);
  const Strides of_x = p.with_x ? o[O::x].strides : o[O::out].strides;
  Nest out = index_detail::nest_over(p.x, {of_x, o[O::out].strides});
  collapse(out);
  a.out_nest = DeviceNest<2>::of(out);
  a.source = o[O::source].data;
  a.x = p.with_x ? o[O::x].data : nullptr;
  a.out = o[O::out].data;
  a.dtype = p.element_dtype;
  return launch_sums(stream, l, a, base);
}

}  // namespace

}  // namespace index_device

using namespace index_device;

Result<void> index_item_sums_cuda(const Stream& stream, Workspace workspace, const IndexProblem& p,
                                  const Operands& o) {
  using O = index_operand::Write;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const View &index = o[O::index], &out = o[O::out];
  const auto bad = clear_counter(stream, o[O::bad_indices], "scatter_add");
  if (!bad) return tl::unexpected(bad.error());
  if (p.by_slice())
    if (auto ok = count_list(stream, index, p.extent(), *bad); !ok) return ok;
  if (auto ok = index_device::copy_elements(stream, p.with_x ? o[O::x] : View{}, out); !ok)
    return ok;
  const ItemSumLayout l(p);
  auto* base = static_cast<char*>(workspace.data);
  std::uint32_t* const keys[] = {reinterpret_cast<std::uint32_t*>(base + l.keys[0]),
                                 reinterpret_cast<std::uint32_t*>(base + l.keys[1])};
  std::uint32_t* const positions[] = {reinterpret_cast<std::uint32_t*>(base + l.positions[0]),
                                      reinterpret_cast<std::uint32_t*>(base + l.positions[1])};
  const Strides targets = row_major(p.x);
  Nest nest = index_detail::nest_over(p.items(), {index_detail::index_strides(p, index),
                                                  index_detail::without_axis(targets, p.axis)});
  collapse(nest);
  const MakeKeys make = {DeviceNest<2>::of(nest),
                         Indices(index),
                         p.extent(),
                         targets[p.axis],
                         static_cast<std::uint32_t>(numel(p.x)),
                         keys[0],
                         positions[0],
                         p.by_slice() ? nullptr : *bad};
  if (auto ok = launch(stream, "scatter_add", make_pairs, move_blocks(l.count), kMoveThreads, make);
      !ok)
    return ok;
  if (numel(p.x) == 0) return {};  // all indices are bad, and counted
  const auto sorted =
      sort_device::sort_pairs(stream, base + l.temporary, keys, positions, l.count, l.key_bits);
  if (!sorted) return tl::unexpected(sorted.error());
  return p.element_dtype == Dtype::f64 ? sum_items<double>(stream, p, o, l, base, *sorted)
                                       : sum_items<float>(stream, p, o, l, base, *sorted);
}

}  // namespace planck
