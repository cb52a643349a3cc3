// Shapes and strides: up to eight int64 values; more are thrown as planck::Exception. Strides count
// elements; 0 broadcasts, negative values flip.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "planck/core/result.h"

namespace planck {

inline constexpr int kMaxRank = 8;

namespace shape_detail {
[[noreturn]] void refuse_rank(std::size_t extents);
}  // namespace shape_detail

class Extents {
 public:
  constexpr Extents() = default;
  constexpr Extents(std::initializer_list<std::int64_t> values) {
    check(values.size());
    for (std::int64_t v : values) push_back(v);
  }
  explicit constexpr Extents(std::span<const std::int64_t> values) {
    check(values.size());
    for (std::int64_t v : values) push_back(v);
  }
  static constexpr Extents filled(int rank, std::int64_t value) {
    Extents e;
    if (rank > 0) check(static_cast<std::size_t>(rank));
    for (int d = 0; d < rank; ++d) e.push_back(value);
    return e;
  }

  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int d) const { return values_[static_cast<std::size_t>(d)]; }
  constexpr std::int64_t& operator[](int d) { return values_[static_cast<std::size_t>(d)]; }
  constexpr void push_back(std::int64_t v) {
    check(static_cast<std::size_t>(rank_) + 1);
    values_[static_cast<std::size_t>(rank_++)] = v;
  }
  constexpr const std::int64_t* begin() const { return values_.data(); }
  constexpr const std::int64_t* end() const { return values_.data() + rank_; }

  friend constexpr bool operator==(const Extents& a, const Extents& b) {
    if (a.rank_ != b.rank_) return false;
    for (int d = 0; d < a.rank_; ++d)
      if (a[d] != b[d]) return false;
    return true;
  }

 private:
  static constexpr void check(std::size_t extents) {
    if (extents > kMaxRank) shape_detail::refuse_rank(extents);
  }

  std::array<std::int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

using Shape = Extents;
using Strides = Extents;

// Number of elements. The shape must have passed check_shape.
constexpr std::int64_t numel(const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t v : shape) n *= v;
  return n;
}

constexpr Strides row_major(const Shape& shape) {
  Strides strides = Extents::filled(shape.rank(), 1);
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = step;
    step *= shape[d] > 0 ? shape[d] : 1;
  }
  return strides;
}

// Extents are not negative and their product, times 8 bytes, fits in int64.
[[nodiscard]] Result<void> check_shape(const Shape& shape, std::string_view what);

std::string to_string(const Extents& extents);  // "[2, 3]"

}  // namespace planck
