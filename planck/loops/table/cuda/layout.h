// Where the CUDA kernels keep the index of a table: which entries belong to which row.
//
// N entries with keys in [0, V) are sorted by key, stably, in `passes` passes over digits of
// `digit_bits`, by tiles of `tile` entries. Entries of one key are then summed in chunks of 64: a
// key with more has several, with partial sums in between. A key with few entries is light; all
// others are hot, and their chunks are items of their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "planck/loops/table/table.h"

namespace planck::table_device {

inline constexpr int kSortThreads = 512, kSortWarps = kSortThreads / 32;
inline constexpr int kMaxDigitBits = 10, kMaxBins = 1 << kMaxDigitBits, kMaxPasses = 8;
inline constexpr std::int64_t kSmallCount = 4096;  // sorted by one block
inline constexpr std::int64_t kItemTile = 1024;    // sorted entries per block that makes items
inline constexpr int kLightMost = 16;              // entries of a light row; four rows at a time

// Work that warps take as they come is dealt to groups, each with a counter of its own in memory:
// one counter for all would be the bottleneck.
inline constexpr int kGroups = 32;
struct GroupCounters {
  struct alignas(128) {
    unsigned long long taken;
  } of[kGroups];
};

// What the launches of a chain count; zero before the first.
struct Counters {
  std::uint32_t entries;              // with a valid key
  std::uint32_t light, hot;           // items of each kind
  std::uint32_t rows;                 // distinct keys, where items are ordered
  std::uint32_t tickets[kMaxPasses];  // tiles taken in each pass
  GroupCounters next_light, next_hot, next_clear;
};

struct SortedIndexLayout {
  std::int64_t count = 0, keys = 0;
  int passes = 0, digit_bits = 0, items_a_thread = 0;
  bool small = true;
  bool wide = false;              // keys of more than 32 bits, looked up in the indices
  std::int64_t tiles = 0;         // per pass
  std::int64_t item_tiles = 0;    // of the sorted list
  std::int64_t slots = 0;         // partial sums, each of one chunk
  std::int64_t column_tiles = 0;  // cuts of a row that are summed apart

  // Byte offsets. [0, zeroed) is cleared by the first launch.
  std::size_t counters = 0, arrivals = 0, histogram = 0, status = 0, present = 0, zeroed = 0;
  std::size_t heads = 0, pairs[2] = {}, items = 0, partials = 0, bytes = 0;

  std::int64_t bins() const { return std::int64_t{1} << digit_bits; }
  std::uint8_t* flags(void* workspace) const {
    return static_cast<std::uint8_t*>(workspace) + present;
  }

  // keys: V. columns: D. compute_bytes: of a partial sum. with_present: a flag for each key.
  // ascending: keys do already, entries without one are to be dropped.
  static SortedIndexLayout make(std::int64_t count, std::int64_t keys, std::int64_t columns,
                                std::size_t compute_bytes, bool with_present, bool ascending);
  // Entries by the row of the table they name, or by their bag.
  static SortedIndexLayout of_rows(const TableProblem& p);
  static SortedIndexLayout of_bags(const TableProblem& p);
};

// What the bags of a problem need before the index, which comes first in the workspace.
struct BagLayout {
  static constexpr std::int64_t kTile = 1024;  // offsets per block
  SortedIndexLayout index;
  std::int64_t tiles = 0;
  std::size_t starts = 0, maxima = 0, bags = 0, counts = 0, bytes = 0;

  static BagLayout of(const TableProblem& p);
};

// The fewest columns of a hot row that a warp sums at once, unless the row has fewer.
inline constexpr std::int64_t kLeastColumnTile = 64;

// Entries and keys that the kernels can count.
inline constexpr std::int64_t kMaxEntries = (std::int64_t{1} << 30) - 1;
inline constexpr std::int64_t kMaxKeys = (std::int64_t{1} << 32) - 2;

}  // namespace planck::table_device
