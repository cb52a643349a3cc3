// "cuda:bags" and the gradient of bags by "cuda:sorted_rows".
//
// Sums and means of bags are sums of rows like those of a gradient. The key of an entry is its bag;
// the keys ascend already, so the sort is one pass that drops what is not valid. In the gradient,
// an entry's row comes from its bag.
#include "planck/loops/table/cuda/add_rows.cuh"
#include "planck/loops/table/table.math.h"
#include "planck/ops/embedding/cuda/bags.cuh"
#include "planck/ops/embedding/cuda/kernels.h"

namespace planck {

namespace table_device {

namespace {

constexpr int kThreads = 256;
constexpr const char* kName = "embedding bags";

__device__ __forceinline__ std::uint32_t inside(const Bags& b, std::int64_t i) {
  return static_cast<std::uint32_t>(table_math::bag_start(b.offsets[i], 0, b.count));
}

// The largest offset of each tile, clamped to [0, N].
__global__ void __launch_bounds__(kThreads) offset_maxima(const __grid_constant__ Bags b) {
  __shared__ std::uint32_t largest;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  follow();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    if (b.bad_offsets != nullptr) *b.bad_offsets = 0;
    if (b.bad_indices != nullptr) *b.bad_indices = 0;
  }
  const std::int64_t first = blockIdx.x * BagLayout::kTile;
  std::uint32_t mine = 0;
  for (std::int64_t i = first + threadIdx.x; i < min(b.given, first + BagLayout::kTile);
       i += kThreads)
    mine = max(mine, inside(b, i));
  mine = __reduce_max_sync(~0u, mine);
  if (threadIdx.x % 32 == 0) atomicMax(&largest, mine);
  __syncthreads();
  if (threadIdx.x == 0) b.maxima[blockIdx.x] = largest;
}

// starts[b] = the largest offset up to b.
__global__ void __launch_bounds__(kThreads) bag_starts(const __grid_constant__ Bags b) {
  __shared__ std::uint32_t before, warps[kThreads / 32];
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  follow();
  std::uint32_t largest = 0;
  for (std::int64_t i = threadIdx.x; i < blockIdx.x; i += kThreads)
    largest = max(largest, b.maxima[i]);
  atomicMax(&before, largest);
  const std::int64_t first = blockIdx.x * BagLayout::kTile;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t bad = 0;
  for (std::int64_t tile = first; tile < first + BagLayout::kTile; tile += kThreads) {
    __syncthreads();
    const std::int64_t i = tile + threadIdx.x;
    std::uint32_t start = i < b.given ? inside(b, i) : 0;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const std::uint32_t other = __shfl_up_sync(~0u, start, step);
      if (lane >= step) start = max(start, other);
    }
    if (lane == 31) warps[warp] = start;
    __syncthreads();
    start = max(start, before);
    for (int w = 0; w < warp; ++w) start = max(start, warps[w]);
    __syncthreads();
    if (threadIdx.x == kThreads - 1) before = start;
    if (i < b.given) {
      b.starts[i] = start;
      bad += b.offsets[i] != start;
      if (b.counts != nullptr && i < b.bags) b.counts[i] = 0;
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0 && b.given == b.bags)
    b.starts[b.bags] = static_cast<std::uint32_t>(b.count);
  bad = __reduce_add_sync(~0u, bad);
  if (b.bad_offsets != nullptr && lane == 0 && bad > 0)
    atomicAdd(b.bad_offsets, static_cast<unsigned long long>(bad));
}

// The bag of each entry: the last that starts at or before it.
__global__ void __launch_bounds__(kThreads) bag_of_entries(const __grid_constant__ Bags b) {
  follow();
  for (std::int64_t n = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; n < b.count;
       n += std::int64_t{gridDim.x} * kThreads) {
    std::int64_t low = 0, high = b.bags + 1;  // the first start behind n
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (b.starts[middle] <= n)
        low = middle + 1;
      else
        high = middle;
    }
    // Behind the end of the last bag, or before the first: in none.
    const bool in_bag = low > 0 && low <= b.bags;
    b.bag_of[n] = in_bag ? static_cast<std::uint32_t>(low - 1) : kNoKey;
    if (b.counts == nullptr || !in_bag) continue;
    bool bad;
    if (b.keys(n, bad) != kNoKey) atomicAdd(b.counts + low - 1, 1u);
  }
}

}  // namespace

Bags bags_of(const EmbeddingProblem& p, const BagLayout& l, Workspace workspace,
             const View& indices, const View& offsets, const View& bad_offsets) {
  const auto at = [&](std::size_t offset) {
    return reinterpret_cast<std::uint32_t*>(static_cast<char*>(workspace.data) + offset);
  };
  const bool forward = p.kind == TableOp::read_bags;
  Bags b;
  b.offsets = Integers::of(offsets);
  b.keys.indices = Integers::of(indices);
  b.keys.rows = p.num_embeddings;
  b.keys.padding = p.padding_idx;
  b.count = p.count();
  b.bags = p.bags;
  b.given = p.offsets();
  b.starts = at(l.starts);
  b.maxima = at(l.maxima);
  if (!forward || p.mode != BagMode::max) b.bag_of = at(l.bags);
  if (!forward && p.mode == BagMode::mean) b.counts = at(l.counts);
  b.bad_offsets = counter_of(bad_offsets);
  return b;
}

Result<void> find_bags(const Stream& stream, const Bags& b, const BagLayout& l) {
  const std::int64_t tiles = std::max<std::int64_t>(1, l.tiles);
  if (auto ok = launch(stream, kName, offset_maxima, tiles, kThreads, b); !ok) return ok;
  if (auto ok = launch_next(stream, kName, bag_starts, tiles, kThreads, b); !ok) return ok;
  if (b.bag_of == nullptr) return {};
  return launch_next(stream, kName, bag_of_entries,
                     std::min<std::int64_t>(ceil_div(b.count, kThreads), 4096), kThreads, b);
}

}  // namespace table_device

using namespace table_device;

namespace {

IndexCall call_of(const BagLayout& l, Workspace workspace, const Bags& b, const View& bad) {
  IndexCall c;
  c.layout = l.index;
  c.index = sorted_index(l.index, workspace.data);
  c.keys = b.keys;
  c.keys.bags = b.bag_of;
  c.bad = counter_of(bad);
  c.first = false;
  return c;
}

void clear_table(IndexCall& c, const View& table, Workspace workspace, Dtype element) {
  c.clear = ClearRows::of(table, storage_bytes(element));
  if (!c.layout.small) c.clear.present = c.index.present = c.layout.flags(workspace.data);
}

}  // namespace

Result<void> embedding_bag_cuda(const Stream& stream, Workspace workspace,
                                const EmbeddingProblem& p, const Operands& operands) {
  using O = table_operand::Bag;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const BagLayout l = BagLayout::of(p);
  const View &weight = operands[O::weight], &out = operands[O::out];
  Bags b = bags_of(p, l, workspace, operands[O::indices], operands[O::offsets],
                   operands[O::bad_offsets]);
  if (p.mode == BagMode::max) {
    b.bad_indices = counter_of(operands[O::bad_indices]);
    if (auto ok = find_bags(stream, b, l); !ok) return ok;
    return launch_largest(stream, p, b, weight, out, operands[O::argmax]);
  }
  if (auto ok = find_bags(stream, b, l); !ok) return ok;
  IndexCall c = call_of(l, workspace, b, operands[O::bad_indices]);
  c.keys.by_bag = true;
  clear_table(c, out, workspace, p.element_dtype);
  if (auto ok = build_index(stream, c); !ok) return ok;
  if (p.count() == 0 || p.dim == 0 || p.bags == 0) return {};
  return with_element(p.element_dtype, [&](auto element) {
    using T = decltype(element);
    SumRows<T> a = sums_into<T>(out, c, weight, 1);
    a.source.indices = c.keys.indices;
    if (p.weighted) {
      a.source.scales = static_cast<const T*>(operands[O::weights].data);
      a.source.scale_stride = operands[O::weights].strides[0];
    }
    a.mean = p.mode == BagMode::mean;
    return launch_sum<T, SourceKind::mapped>(stream, a, p.count());
  });
}

Result<void> embedding_bag_backward_cuda(const Stream& stream, Workspace workspace,
                                         const EmbeddingProblem& p, const Operands& operands) {
  using O = table_operand::BagBackward;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const BagLayout l = BagLayout::of(p);
  const View &dout = operands[O::dout], &dweight = operands[O::dweight];
  const Bags b = bags_of(p, l, workspace, operands[O::indices], operands[O::offsets],
                         operands[O::bad_offsets]);
  if (auto ok = find_bags(stream, b, l); !ok) return ok;
  if (p.weights_gradient)
    if (auto ok =
            launch_weights_gradient(stream, p, b, dout, operands[O::weight], operands[O::dweights]);
        !ok)
      return ok;
  IndexCall c = call_of(l, workspace, b, operands[O::bad_indices]);
  if (!p.accumulate) clear_table(c, dweight, workspace, p.element_dtype);
  if (auto ok = build_index(stream, c); !ok) return ok;
  if (p.count() == 0 || p.dim == 0 || p.num_embeddings == 0 || p.bags == 0) return {};
  return with_element(p.element_dtype, [&](auto element) {
    using T = decltype(element);
    SumRows<T> a = sums_into<T>(dweight, c, dout, 1);
    a.accumulate = p.accumulate;
    a.source.bags = b.bag_of;
    if (p.mode == BagMode::max) {
      const View& argmax = operands[O::argmax];
      a.source.chosen = static_cast<const std::int64_t*>(argmax.data);
      a.source.chosen_row = argmax.strides[0];
      a.source.chosen_column = argmax.strides[1];
      return launch_sum<T, SourceKind::chosen>(stream, a, p.count());
    }
    if (p.weighted) {
      a.source.scales = static_cast<const T*>(operands[O::weights].data);
      a.source.scale_stride = operands[O::weights].strides[0];
    }
    a.source.counts = b.counts;
    return launch_sum<T, SourceKind::mapped>(stream, a, p.count());
  });
}

}  // namespace planck
