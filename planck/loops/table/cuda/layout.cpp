#include "planck/loops/table/cuda/layout.h"

#include <algorithm>

#include "planck/math/chunked_sum.h"

namespace planck::table_device {

SortedIndexLayout SortedIndexLayout::make(std::int64_t count, std::int64_t keys,
                                          std::int64_t columns, std::size_t compute_bytes,
                                          bool with_present, bool ascending) {
  SortedIndexLayout l;
  l.count = count;
  l.keys = keys;
  int bits = 1;
  while (bits < 62 && (std::int64_t{1} << bits) < keys) ++bits;
  l.small = count <= kSmallCount;
  l.wide = keys > kMaxKeys;
  const int most = l.small ? 8 : kMaxDigitBits;
  l.passes = ascending ? 1 : (bits + most - 1) / most;
  l.digit_bits = ascending ? 0 : (bits + l.passes - 1) / l.passes;
  // Enough tiles to share the work, few enough for the look-back.
  constexpr std::int64_t kTiles = 32;
  l.items_a_thread = 1;
  while (l.items_a_thread < 16 && count / (kSortThreads * l.items_a_thread) > kTiles)
    l.items_a_thread *= 2;
  if (l.wide && l.items_a_thread > 1) l.items_a_thread = 16;  // rare: two kernels will do
  const auto blocks_of = [](std::int64_t n, std::int64_t size) { return (n + size - 1) / size; };
  l.tiles = blocks_of(count, std::int64_t{kSortThreads} * l.items_a_thread);
  l.item_tiles = blocks_of(count, kItemTile);
  // A chunk that starts at sorted entry i has slot 2 · (i / 64), the first of its key the next one.
  l.slots = count > kSumChunk ? 2 * blocks_of(count, kSumChunk) : 0;
  l.column_tiles = std::max<std::int64_t>(1, blocks_of(columns, kLeastColumnTile));

  std::size_t at = 0;
  const auto take = [&at](std::int64_t n, std::size_t size) {
    const std::size_t begin = at;
    at = (at + static_cast<std::size_t>(n) * size + 255) / 256 * 256;
    return begin;
  };
  l.counters = take(1, sizeof(Counters));
  l.arrivals = take(l.slots * l.column_tiles, 8);
  if (!l.small) {
    l.histogram = take(l.passes * l.bins(), 4);
    l.status = take(l.passes * l.tiles * l.bins(), 4);
    l.present = take(with_present ? keys : 0, 1);
  }
  l.zeroed = at;
  l.heads = take(l.item_tiles, 4);
  l.pairs[0] = take(count, 8);
  l.pairs[1] = take(l.small || l.passes < 2 ? 0 : count, 8);
  l.items = take(count, 16);
  l.partials = take(l.slots * columns, compute_bytes);
  l.bytes = at;
  return l;
}

SortedIndexLayout SortedIndexLayout::of_rows(const TableProblem& p) {
  const bool flags = p.kind != TableOp::add_sparse && !p.accumulate;
  return make(p.count(), p.num_embeddings, p.dim, storage_bytes(compute_dtype(p.element_dtype)),
              flags, false);
}

SortedIndexLayout SortedIndexLayout::of_bags(const TableProblem& p) {
  return make(p.count(), p.bags, p.dim, storage_bytes(compute_dtype(p.element_dtype)), true, true);
}

BagLayout BagLayout::of(const TableProblem& p) {
  BagLayout l;
  const bool forward = p.kind == TableOp::read_bags;
  const bool sums = !forward || p.mode != BagMode::max;
  if (sums) l.index = forward ? SortedIndexLayout::of_bags(p) : SortedIndexLayout::of_rows(p);
  l.tiles = (p.offsets() + kTile - 1) / kTile;
  std::size_t at = l.index.bytes;
  const auto take = [&at](std::int64_t n) {
    const std::size_t begin = at;
    at = (at + static_cast<std::size_t>(n) * 4 + 255) / 256 * 256;
    return begin;
  };
  l.starts = take(p.bags + 1);
  l.maxima = take(l.tiles);
  l.bags = take(sums ? p.count() : 0);
  l.counts = take(!forward && p.mode == BagMode::mean ? p.bags : 0);
  l.bytes = at;
  return l;
}

}  // namespace planck::table_device
