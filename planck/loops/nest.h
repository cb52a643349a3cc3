// Loop nests: one order of visiting the elements of a problem, and how each operand is walked in
// that order.
//
// For elementwise work the order is free, so it follows the output's memory: axes sorted by its
// strides, its negative strides flipped, axes that all operands agree on merged. For sums the
// logical order is kept.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "planck/core/shape.h"

namespace planck {

inline constexpr int kMaxNestRank = kMaxRank + 1;  // an axis may have been split in two
inline constexpr int kMaxNestOperands = 8;

using NestStrides = std::array<std::int64_t, kMaxNestRank>;

// Extents outermost first; strides and starting offsets of each operand, in elements.
struct Nest {
  int rank = 0, operands = 0;
  NestStrides extent{};
  std::array<NestStrides, kMaxNestOperands> stride{};
  std::array<std::int64_t, kMaxNestOperands> offset{};

  std::int64_t total() const {
    std::int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= extent[static_cast<std::size_t>(d)];
    return n;
  }
};

Nest make_nest(int rank, const NestStrides& extent, std::span<const NestStrides> strides);
// Sorts axes by the key operand's strides, largest first, and flips its negative ones.
void sort_by(Nest& nest, int key);
// Drops axes of extent 1 and merges neighbours wherever every operand allows; rank is 1 at least
// afterwards.
void collapse(Nest& nest);

// One operand of a nest, collapsed for itself: position p of the nest's order lies at
// offset + Σ coordinate · stride.
struct Walk {
  int rank = 1;
  NestStrides extent{}, stride{};
  std::int64_t offset = 0;

  bool dense() const { return rank == 1 && stride[0] == 1; }

  // Calls f(offset, stride, length) for the runs that make up positions [begin, begin + count), in
  // order.
  template <class F>
  void runs(std::int64_t begin, std::int64_t count, F&& f) const {
    if (rank == 1) {
      f(offset + begin * stride[0], stride[0], count);
      return;
    }
    NestStrides at{};
    std::int64_t here = offset, rest = begin;
    for (auto d = static_cast<std::size_t>(rank); d-- > 0;) {
      at[d] = rest % extent[d];
      rest /= extent[d];
      here += at[d] * stride[d];
    }
    const auto last = static_cast<std::size_t>(rank - 1);
    while (true) {
      const std::int64_t left = extent[last] - at[last];
      const std::int64_t length = left < count ? left : count;
      f(here, stride[last], length);
      count -= length;
      if (count == 0) return;
      here -= at[last] * stride[last];
      at[last] = 0;
      for (std::size_t d = last; d-- > 0;) {
        here += stride[d];
        if (++at[d] < extent[d]) break;
        here -= extent[d] * stride[d];
        at[d] = 0;
      }
    }
  }
};

Walk walk_of(const Nest& nest, int operand);

}  // namespace planck
