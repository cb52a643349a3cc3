// The whole index built by one block, for few entries.
#pragma once

#include "planck/loops/table/cuda/make_items.cuh"

namespace planck::table_device {

inline constexpr int kSmallItems = static_cast<int>(kSmallCount) / kSortThreads;

struct SmallShared {
  union {
    struct {
      std::uint16_t counts[kSortWarps * 256];
      std::uint32_t base[256];
      std::uint32_t sums[kSortWarps];
    } sort;
    ItemsShared items;
  };
  std::uint32_t entries;
};

// Sorts by one digit, from pairs in registers to the list in memory.
template <bool kWide>
__device__ __forceinline__ std::uint32_t small_pass(const SortedIndex& index, int pass,
                                                    Pair (&pairs)[kSmallItems], int items,
                                                    SmallShared& s) {
  const int t = static_cast<int>(threadIdx.x), warp = t / 32, bins = 1 << index.digit_bits;
  for (int i = t; i < kSortWarps * bins / 2; i += kSortThreads)
    reinterpret_cast<std::uint32_t*>(s.sort.counts)[i] = 0;
  __syncthreads();
  std::uint32_t rank[kSmallItems];
  const auto digit_of = [&](int k) {
    return pairs[k].key != kNoKey ? index.digit<kWide>(pairs[k], pass) : 0;
  };
#pragma unroll
  for (int k = 0; k < kSmallItems; ++k)
    if (k < items) rank[k] = peers_of(digit_of(k), pairs[k].key != kNoKey, index.digit_bits);
#pragma unroll
  for (int k = 0; k < kSmallItems; ++k)
    if (k < items)
      rank[k] =
          rank_in_warp(s.sort.counts + warp * bins, digit_of(k), pairs[k].key != kNoKey, rank[k]);
  __syncthreads();
  if (t < bins) s.sort.base[t] = scan_warps(s.sort.counts, bins, t);
  __syncthreads();
  const std::uint32_t entries = scan_block(s.sort.base, bins, s.sort.sums);
  Pair* list = index.sorted();
#pragma unroll
  for (int k = 0; k < kSmallItems; ++k)
    if (k < items && pairs[k].key != kNoKey)
      list[s.sort.base[digit_of(k)] + s.sort.counts[warp * bins + digit_of(k)] + rank[k]] =
          pairs[k];
  __syncthreads();
  return entries;
}

// Block 0 builds the index; the others clear all rows, before the sums of some are stored.
template <bool kWide>
__global__ void __launch_bounds__(kSortThreads)
    small_index(const __grid_constant__ SortedIndex index, const __grid_constant__ Keys keys,
                unsigned long long* bad, const __grid_constant__ OrderedRows ordered,
                const __grid_constant__ ClearRows clear, std::int64_t zeroed) {
  __shared__ SmallShared s;
  const int t = static_cast<int>(threadIdx.x), warp = t / 32;
  follow();
  if (blockIdx.x > 0) {
    const std::int64_t pieces = clear.pieces(), step = std::int64_t{gridDim.x - 1} * kSortWarps;
    for (std::int64_t i = std::int64_t{blockIdx.x - 1} * kSortWarps + warp; i < pieces; i += step)
      clear(i);
    return;
  }
  for (std::int64_t i = t; i < zeroed; i += kSortThreads)
    reinterpret_cast<uint4*>(index.counters)[i] = uint4{};
  if (bad != nullptr && t == 0) *bad = 0;
  __syncthreads();
  // Warp w holds a run of entries, as a tile's warps do.
  const int items = static_cast<int>((index.count + kSortThreads - 1) / kSortThreads);
  Pair pairs[kSmallItems];
  std::uint32_t outside = 0;
#pragma unroll
  for (int k = 0; k < kSmallItems; ++k) {
    const std::int64_t i = std::int64_t{warp} * 32 * items + 32 * k + t % 32;
    pairs[k] = {kNoKey, static_cast<std::uint32_t>(i)};
    if (k >= items || i >= index.count) continue;
    bool wrong;
    pairs[k].key = keys(i, wrong);
    outside += wrong;
  }
  if (bad != nullptr) add_bad(bad, outside);
  std::uint32_t entries = 0;
  for (int pass = 0; pass < index.passes; ++pass) {
    if (pass > 0) {
#pragma unroll
      for (int k = 0; k < kSmallItems; ++k) {
        const std::uint32_t i = static_cast<std::uint32_t>(warp * 32 * items + 32 * k + t % 32);
        const bool any = k < items && i < entries;
        pairs[k] = any ? index.sorted()[i] : Pair{kNoKey, 0};
      }
      __syncthreads();
    }
    entries = small_pass<kWide>(index, pass, pairs, items, s);
  }
  if (ordered.rows != nullptr) {  // what count_heads does for longer lists
    const Pair* list = index.sorted();
    for (std::int64_t tile = 0; tile < index.item_tiles; ++tile) {
      if (t == 0) s.entries = 0;
      __syncthreads();
      for (std::int64_t at = tile * kItemTile + t; at < (tile + 1) * kItemTile; at += kSortThreads)
        if (at < entries &&
            (at == 0 || index.key<kWide>(list[at]) != index.key<kWide>(list[at - 1])))
          atomicAdd(&s.entries, 1u);
      __syncthreads();
      if (t == 0) index.heads[tile] = s.entries;
    }
    __syncthreads();
  }
  for (std::int64_t tile = 0; tile < index.item_tiles; ++tile) {
    items_of_tile<kWide>(index, tile, entries, ordered, s.items);
    __syncthreads();
  }
  if (t == 0) index.counters->entries = entries;
}

}  // namespace planck::table_device
