// Where cuda:radix keeps its pairs: rows are sorted in batches of at most kBatch elements, or one
// by one.
#pragma once

#include <algorithm>

#include "planck/ops/sort/host/pairs.h"
#include "planck/ops/sort/sort.problem.h"

namespace planck::sort_device {

inline constexpr std::int64_t kBatch = std::int64_t{1} << 28;
inline constexpr std::int64_t kMostRow = INT32_MAX;

struct RadixLayout {
  std::int64_t rows;      // per batch
  std::int64_t elements;  // per batch
  std::size_t keys[2], positions[2], temporary, bytes;

  explicit RadixLayout(const SortProblem& p) {
    const std::int64_t length = std::max<std::int64_t>(p.length(), 1);
    rows = std::clamp<std::int64_t>(kBatch / length, 1, std::max<std::int64_t>(p.rows(), 1));
    elements = rows * p.length();
    std::size_t at = 0;
    const auto take = [&at](std::size_t size) {
      const std::size_t begin = at;
      at = (at + size + 255) / 256 * 256;
      return begin;
    };
    const auto n = static_cast<std::size_t>(elements);
    const std::size_t key = std::max<std::size_t>(4, storage_bytes(p.element_dtype));
    for (auto& k : keys) k = take(n * key);
    for (auto& v : positions) v = take(n * 4);
    temporary = take(temporary_bytes_for(elements));
    bytes = at;
  }
};

}  // namespace planck::sort_device
