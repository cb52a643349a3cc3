// From a sorted list of entries to items of work.
#pragma once

#include "planck/loops/table/cuda/sort_pass.cuh"

namespace planck::table_device {

// The first entry with `key` in [0, last], given that `last` has it; by a warp.
template <bool kWide>
__device__ __forceinline__ std::uint32_t first_of(const SortedIndex& index, std::uint64_t key,
                                                  std::uint32_t last) {
  const Pair* pairs = index.sorted();
  std::uint32_t low = 0, high = last;  // it is in [low, high]
  while (low < high) {
    const std::uint32_t step = (high - low + 31) / 32;
    const std::uint32_t at = min(low + (threadIdx.x % 32) * step, high);
    const unsigned equal = __ballot_sync(~0u, index.key<kWide>(pairs[at]) == key);
    const int f = equal != 0 ? __ffs(static_cast<int>(equal)) - 1 : 32;
    if (f == 0) return low;
    if (f < 32) high = min(high, low + f * step);
    low = low + (f - 1) * step + 1;
  }
  return low;
}
// One past the last entry with `key` in [first, count), given that `first` has it; by a warp.
template <bool kWide>
__device__ __forceinline__ std::uint32_t end_of(const SortedIndex& index, std::uint64_t key,
                                                std::uint32_t first, std::uint32_t count) {
  const Pair* pairs = index.sorted();
  std::uint32_t low = first + 1, high = count;  // it is in [low, high]
  while (low < high) {
    const std::uint32_t step = (high - low + 31) / 32;
    const std::uint32_t at = low + (threadIdx.x % 32) * step;
    const unsigned other = __ballot_sync(~0u, at >= high || index.key<kWide>(pairs[at]) != key);
    const int f = other != 0 ? __ffs(static_cast<int>(other)) - 1 : 32;
    if (f == 0) return low;
    if (f < 32) high = min(high, low + f * step);
    low = low + (f - 1) * step + 1;
  }
  return low;
}

// Keys of a tile and its surroundings: keys[kHalo + i] is that of entry base + i.
struct TileKeys {
  static constexpr int kHalo = kSumChunk;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // outside the list
  std::uint64_t* keys;
  std::int64_t base;
  std::uint32_t entries;     // in all
  std::uint32_t begin, end;  // of the row the tile's first entry belongs to, and its last

  __device__ __forceinline__ std::uint64_t operator[](int i) const { return keys[kHalo + i]; }
  template <bool kWide>
  __device__ __forceinline__ void load(const SortedIndex& index) {
    const Pair* pairs = index.sorted();
    for (int i = static_cast<int>(threadIdx.x); i < kItemTile + 2 * kHalo; i += kSortThreads) {
      const std::int64_t at = base + i - kHalo;
      keys[i] = at >= 0 && at < entries ? index.key<kWide>(pairs[at]) : kNone;
    }
  }
  __device__ __forceinline__ int last() const {
    return static_cast<int>(min(kItemTile, entries - base)) - 1;
  }
  __device__ __forceinline__ bool is_head(int i) const { return (*this)[i] != (*this)[i - 1]; }
  // First entry of the row of entry i of the tile.
  __device__ __forceinline__ std::uint32_t row_begin(int i) const {
    const std::uint64_t key = (*this)[i];
    if ((*this)[0] == key) return begin;
    int low = 1, high = i;
    while (low < high) {
      const int middle = (low + high) / 2;
      if ((*this)[middle] == key)
        high = middle;
      else
        low = middle + 1;
    }
    return static_cast<std::uint32_t>(base + low);
  }
  // One past the last entry of the row of i, as far as `limit`.
  __device__ __forceinline__ int run_end(int i, int limit) const {
    const std::uint64_t key = (*this)[i];
    int low = i + 1, high = limit;
    while (low < high) {
      const int middle = (low + high) / 2;
      if ((*this)[middle] != key)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  __device__ __forceinline__ std::uint32_t row_end(int i) const {
    if ((*this)[last()] == (*this)[i]) return end;
    return static_cast<std::uint32_t>(base + run_end(i, last()));
  }

  enum class Kind { none, light, hot };
  // The item that begins at entry i of the tile. An item's row is its key.
  __device__ __forceinline__ Kind item(int i, const Pair* pairs, Item& item) const {
    if (i > last()) return Kind::none;
    const auto at = static_cast<std::uint32_t>(base + i);
    const std::uint64_t key = (*this)[i];
    const auto row = static_cast<std::uint32_t>(key);
    std::uint32_t start = at;
    if (!is_head(i)) {
      if ((*this)[i - kSumChunk] != key) return Kind::none;
      start = row_begin(i);
      if ((at - start) % kSumChunk != 0) return Kind::none;
    }
    if (at == start && (*this)[i + kLightMost] != key) {
      item = {row, at, static_cast<std::uint32_t>(run_end(i, i + kLightMost) - i), pairs[at].entry};
      return Kind::light;
    }
    item = {row, at, row_end(i) - start, (at - start) / kSumChunk};
    return Kind::hot;
  }
};

// Rows that begin in each tile.
template <bool kWide>
__global__ void __launch_bounds__(kSortThreads)
    count_heads(const __grid_constant__ SortedIndex index) {
  __shared__ std::uint32_t total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  follow();
  const std::uint32_t entries = index.counters->entries;
  const Pair* pairs = index.sorted();
  for (int j = 0; j < kItemTile / kSortThreads; ++j) {
    const std::int64_t at = blockIdx.x * kItemTile + j * kSortThreads + threadIdx.x;
    const bool head =
        at < entries && (at == 0 || index.key<kWide>(pairs[at]) != index.key<kWide>(pairs[at - 1]));
    const unsigned heads = __ballot_sync(~0u, head);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, static_cast<std::uint32_t>(__popc(heads)));
  }
  __syncthreads();
  if (threadIdx.x == 0) index.heads[blockIdx.x] = total;
}

// Rows that begin in tiles before this one, and in all.
__device__ __forceinline__ void sum_heads(const SortedIndex& index, std::int64_t tile,
                                          std::uint32_t* shared, std::uint32_t& before,
                                          std::uint32_t& all) {
  if (threadIdx.x < 2) shared[threadIdx.x] = 0;
  __syncthreads();
  std::uint32_t mine[2] = {};
  for (std::int64_t i = threadIdx.x; i < index.item_tiles; i += kSortThreads) {
    const std::uint32_t n = index.heads[i];
    mine[0] += i < tile ? n : 0;
    mine[1] += n;
  }
  for (int k = 0; k < 2; ++k) {
    const std::uint32_t sum = __reduce_add_sync(~0u, mine[k]);
    if (threadIdx.x % 32 == 0) atomicAdd(shared + k, sum);
  }
  __syncthreads();
  before = shared[0];
  all = shared[1];
  __syncthreads();
}

struct ItemsShared {
  std::uint64_t keys[kItemTile + 2 * TileKeys::kHalo];
  std::uint32_t begin, end;
  std::uint32_t light, hot, first_light, first_hot;
  std::uint32_t heads[kItemTile / 32];  // rows that begin in each 32 entries, then before them
  std::uint32_t sums[2];
};

// Items of one tile, by a block of kSortThreads.
template <bool kWide>
__device__ __forceinline__ void items_of_tile(const SortedIndex& index, std::int64_t tile,
                                              std::uint32_t entries, const OrderedRows& ordered,
                                              ItemsShared& s) {
  const int t = static_cast<int>(threadIdx.x), lane = t % 32;
  std::uint32_t before = 0, all = 0;
  if (ordered.rows != nullptr) {
    sum_heads(index, tile, s.sums, before, all);
    if (tile == 0 && t == 0) *ordered.count = index.counters->rows = all;
    for (std::int64_t i = tile * kItemTile + t; i < min(index.count, (tile + 1) * kItemTile);
         i += kSortThreads)
      if (i >= all) ordered.rows[i * ordered.stride] = -1;
  }
  if (tile * kItemTile >= entries) return;
  const Pair* pairs = index.sorted();
  TileKeys keys{s.keys, tile * kItemTile, entries, 0, 0};
  if (t == 0) s.light = s.hot = 0;
  keys.load<kWide>(index);
  __syncthreads();
  const int last = keys.last();
  if (t / 32 == 0) {
    const auto first = static_cast<std::uint32_t>(keys.base);
    const std::uint32_t begin = keys.is_head(0) ? first : first_of<kWide>(index, keys[0], first);
    if (lane == 0) s.begin = begin;
  } else if (t / 32 == 1) {
    const auto at = static_cast<std::uint32_t>(keys.base + last);
    const std::uint32_t end =
        keys[last + 1] != keys[last] ? at + 1 : end_of<kWide>(index, keys[last], at, entries);
    if (lane == 0) s.end = end;
  }
  __syncthreads();
  keys.begin = s.begin;
  keys.end = s.end;

  constexpr int kEach = kItemTile / kSortThreads;
  Item items[kEach];
  TileKeys::Kind kinds[kEach];
  std::uint32_t places[kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int i = t + j * kSortThreads;
    kinds[j] = keys.item(i, pairs, items[j]);
    const bool hot = kinds[j] == TileKeys::Kind::hot, light = kinds[j] == TileKeys::Kind::light;
    const unsigned below = (1u << lane) - 1;
    const unsigned lights = __ballot_sync(~0u, light), hots = __ballot_sync(~0u, hot);
    std::uint32_t first_light = 0, first_hot = 0;
    if (lane == 0) {
      first_light = atomicAdd(&s.light, static_cast<std::uint32_t>(__popc(lights)));
      first_hot = atomicAdd(&s.hot, static_cast<std::uint32_t>(__popc(hots)));
    }
    first_light = __shfl_sync(~0u, first_light, 0);
    first_hot = __shfl_sync(~0u, first_hot, 0);
    places[j] = hot ? first_hot + __popc(hots & below) : first_light + __popc(lights & below);
    const unsigned heads = __ballot_sync(~0u, i <= last && keys.is_head(i));
    if (lane == 0) s.heads[i / 32] = static_cast<std::uint32_t>(__popc(heads));
    if (ordered.rows != nullptr)
      items[j].row = static_cast<std::uint32_t>(__popc(heads & (below | 1u << lane)));
  }
  __syncthreads();
  if (t == 0) {
    s.first_light = atomicAdd(&index.counters->light, s.light);
    s.first_hot = atomicAdd(&index.counters->hot, s.hot);
  }
  if (ordered.rows != nullptr && t / 32 == 1) {
    static_assert(kItemTile / 32 == 32);
    std::uint32_t sum = s.heads[lane];
    const std::uint32_t own = sum;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const std::uint32_t other = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += other;
    }
    s.heads[lane] = sum - own;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    if (kinds[j] == TileKeys::Kind::none) continue;
    const int i = t + j * kSortThreads;
    if (index.present != nullptr && keys.is_head(i)) index.present[keys[i]] = 1;
    if (ordered.rows != nullptr) {
      items[j].row += before + s.heads[i / 32] - 1;
      if (keys.is_head(i))
        ordered.rows[items[j].row * ordered.stride] = static_cast<std::int64_t>(keys[i]);
    }
    const bool hot = kinds[j] == TileKeys::Kind::hot;
    const std::int64_t at =
        hot ? index.count - 1 - (s.first_hot + places[j]) : s.first_light + places[j];
    *reinterpret_cast<uint4*>(index.items + at) =
        make_uint4(items[j].row, items[j].start, items[j].many, items[j].extra);
  }
}

template <bool kWide>
__global__ void __launch_bounds__(kSortThreads)
    make_items(const __grid_constant__ SortedIndex index,
               const __grid_constant__ OrderedRows ordered) {
  __shared__ ItemsShared shared;
  follow();
  items_of_tile<kWide>(index, blockIdx.x, index.counters->entries, ordered, shared);
}

}  // namespace planck::table_device
