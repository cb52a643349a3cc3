// What the table kernels of both devices compute, one index or one element at a time.
#pragma once

#include <cstdint>

#include "planck/core/macros.h"

namespace planck::table_math {

// Outside of the table: counted, never followed.
PLANCK_HD bool is_bad(std::int64_t index, std::int64_t rows) {
  return static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(rows);
}
// Reads a row and gets a gradient. padding: −1 for none.
PLANCK_HD bool is_valid(std::int64_t index, std::int64_t rows, std::int64_t padding) {
  return !is_bad(index, rows) && index != padding;
}

// Every computed NaN is stored as this one.
PLANCK_HD float canonical(float v) { return v == v ? v : __builtin_nanf(""); }
PLANCK_HD double canonical(double v) { return v == v ? v : __builtin_nan(""); }

// Whether a later entry of a bag replaces the largest so far: NaN is largest, the first one wins.
template <class C>
PLANCK_HD bool exceeds(C later, C largest) {
  return later > largest || (later != later && largest == largest);
}

// Where a bag starts, given where the one before it does.
PLANCK_HD std::int64_t bag_start(std::int64_t offset, std::int64_t before, std::int64_t count) {
  const std::int64_t inside = offset < 0 ? 0 : offset > count ? count : offset;
  return inside < before ? before : inside;
}

}  // namespace planck::table_math
