// One line about indices out of range: where the first one is, what it is and what it must be, and
// how many there are.
//   embedding: indices[1, 3] is 96, must be 0 to 95; 2 of 512 are out of range
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "planck/core/dtype.h"
#include "planck/core/shape.h"

namespace planck {

// An operand of an op that holds indices: of `extent` rows, classes or places.
struct IndexOperand {
  std::string_view op, name;  // literals
  std::int64_t extent = 0;
  std::optional<std::int64_t> ignored = {};  // counts as valid
  bool ends = false;                         // offsets: they ascend, and extent itself is one
};

// The same where the first one was found already: of the row-major place, its value and the least
// that would be valid there. A place of -1: they have changed since they were counted.
[[noreturn]] void refuse_bad_index(const IndexOperand& operand, std::int64_t count,
                                   const Shape& shape, std::int64_t place, std::int64_t value,
                                   std::int64_t least);
// Elements, row-major i32 or i64, of an operand of which so many were counted as bad.
[[noreturn]] void refuse_bad_index(const IndexOperand& operand, std::int64_t count, Dtype dtype,
                                   const Shape& shape, const std::byte* elements);

}  // namespace planck
