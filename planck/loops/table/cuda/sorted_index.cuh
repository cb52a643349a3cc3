// Building the index of a table on the device: keys, a stable sort, and items of work.
//
//   clear_index   counters and flags to zero
//   count_digits  histograms of all digits
//   sort_pass     one digit: each tile ranks its entries in order, learns from the tiles before it
//                 where they go (decoupled look-back), and puts them there
//   make_items    runs of equal keys become items: a row of up to kLightMost entries, or a chunk of
//                 64 of a longer one. Flags the keys that occur
//   small_index   all of this by one block, for few entries
//
// Entries without a valid key are dropped in the first pass.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/table/cuda/clear_rows.cuh"
#include "planck/loops/table/cuda/keys.cuh"
#include "planck/loops/table/cuda/layout.h"
#include "planck/math/chunked_sum.h"

namespace planck::table_device {

struct Pair {
  std::uint32_t key, entry;
};

// A light row of `many` entries from sorted entry `start` on, the first of which is `extra`; or
// chunk number `extra`, which starts there, of a hot row that has `many`.
struct Item {
  std::uint32_t row, start, many, extra;
};

struct SortedIndex {
  Counters* counters;
  unsigned long long* arrivals;  // [slots][column tiles]
  std::uint32_t* histogram;      // [passes][bins]
  std::uint32_t* status;         // [passes][tiles][bins]
  std::uint8_t* present;         // [V]: which keys occur; null: not wanted
  std::uint32_t* heads;          // [item tiles]: rows that begin in each; for ordered items
  Pair* pairs[2];
  Item* items;  // light ones from the front, hot ones from the back
  void* partials;
  std::int64_t count;
  std::int64_t tiles, item_tiles;
  int passes, digit_bits;
  Integers indices;  // where wide keys are

  __host__ __device__ Pair* sorted() const { return pairs[passes & 1]; }
  template <bool kWide>
  __device__ __forceinline__ std::uint64_t key(const Pair& p) const {
    return kWide ? static_cast<std::uint64_t>(indices[p.entry]) : p.key;
  }
  template <bool kWide>
  __device__ __forceinline__ std::uint32_t digit(const Pair& p, int pass) const {
    const std::uint32_t mask = (1u << digit_bits) - 1;
    if constexpr (kWide)
      return static_cast<std::uint32_t>(key<true>(p) >> pass * digit_bits) & mask;
    else
      return p.key >> pass * digit_bits & mask;
  }
};

// Items in ascending order of their keys, on request: row u of the output is the u-th distinct key.
struct OrderedRows {
  std::int64_t* rows = nullptr;  // null: an item's row is its key
  std::int64_t stride = 0;
  std::int64_t* count = nullptr;
};

inline SortedIndex sorted_index(const SortedIndexLayout& l, void* workspace) {
  auto* base = static_cast<char*>(workspace);
  SortedIndex s;
  s.counters = reinterpret_cast<Counters*>(base + l.counters);
  s.arrivals = reinterpret_cast<unsigned long long*>(base + l.arrivals);
  s.histogram = reinterpret_cast<std::uint32_t*>(base + l.histogram);
  s.status = reinterpret_cast<std::uint32_t*>(base + l.status);
  s.present = nullptr;
  s.heads = reinterpret_cast<std::uint32_t*>(base + l.heads);
  // The sorted list ends up in pairs[passes & 1].
  const bool swap = l.small || l.passes < 2;
  s.pairs[0] = reinterpret_cast<Pair*>(base + l.pairs[swap ? 0 : 1]);
  s.pairs[1] = reinterpret_cast<Pair*>(base + l.pairs[0]);
  if (swap) s.pairs[0] = s.pairs[1];
  s.items = reinterpret_cast<Item*>(base + l.items);
  s.partials = base + l.partials;
  s.count = l.count;
  s.tiles = l.tiles;
  s.item_tiles = l.item_tiles;
  s.passes = l.passes;
  s.digit_bits = l.digit_bits;
  return s;
}

// The partial sum of chunk number `chunk` of the row that starts at sorted entry `start`.
__device__ __forceinline__ std::int64_t slot_of(std::uint32_t start, std::uint32_t chunk) {
  return 2 * (std::int64_t{start} / kSumChunk + chunk) + (chunk == 0);
}

}  // namespace planck::table_device
