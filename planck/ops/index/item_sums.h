// Where cuda:sorted_items keeps its pairs, partial sums and long runs.
#pragma once

#include "planck/math/chunked_sum.h"
#include "planck/ops/index/problem.h"
#include "planck/ops/sort/pairs.h"

namespace planck::index_device {

inline constexpr std::int64_t kLeastSortedItems = 1
                                                  << 15;  // below, the embedding's sort is quicker
inline constexpr std::int64_t kMostSortedItems = INT32_MAX;

struct ItemSumLayout {
  std::int64_t count;
  int key_bits;
  std::size_t keys[2], positions[2], temporary, partials, runs, counter, bytes;

  explicit ItemSumLayout(const IndexProblem& p) : count(numel(p.items())), key_bits(1) {
    while ((std::int64_t{1} << key_bits) <= numel(p.x)) ++key_bits;
    std::size_t at = 0;
    const auto take = [&at](std::int64_t n, std::size_t size) {
      const std::size_t begin = at;
      at = (at + static_cast<std::size_t>(n) * size + 255) / 256 * 256;
      return begin;
    };
    for (auto& k : keys) k = take(count, 4);
    for (auto& v : positions) v = take(count, 4);
    temporary = take(1, sort_device::temporary_bytes_for(count));
    partials = take(2 * (count / kSumChunk + 1), storage_bytes(compute_dtype(p.element_dtype)));
    runs = take(count / kSumChunk + 1, 4);
    counter = take(1, 4);
    bytes = at;
  }
};

}  // namespace planck::index_device
