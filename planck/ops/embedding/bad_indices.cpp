#include "planck/ops/embedding/bad_indices.h"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>

#include "planck/core/exception.h"

namespace planck {

namespace {

std::int64_t index_at(Dtype dtype, const std::byte* elements, std::int64_t n) {
  if (dtype == Dtype::i32) {
    std::int32_t value;
    std::memcpy(&value, elements + n * 4, 4);
    return value;
  }
  std::int64_t value;
  std::memcpy(&value, elements + n * 8, 8);
  return value;
}

// [1, 3], of element n; nothing of a single one.
std::string place_of(const Shape& shape, std::int64_t n) {
  if (shape.rank() == 0) return "";
  Shape at = Shape::filled(shape.rank(), 0);
  for (int d = shape.rank() - 1; d >= 0; --d) {
    at[d] = n % shape[d];
    n /= shape[d];
  }
  return to_string(at);
}

}  // namespace

void refuse_bad_index(const IndexOperand& operand, std::int64_t count, const Shape& shape,
                      std::int64_t n, std::int64_t value, std::int64_t least) {
  if (n < 0)
    raise(ErrorCode::invalid_problem, fmt::format("{}: {} of {} {} are out of range", operand.op,
                                                  count, numel(shape), operand.name));
  const std::int64_t most = operand.extent - (operand.ends ? 0 : 1);
  std::string line =
      fmt::format("{}: {}{} is {}, ", operand.op, operand.name, place_of(shape, n), value);
  line += most < least ? "and none is valid" : fmt::format("must be {} to {}", least, most);
  if (count > 1) line += fmt::format("; {} of {} are out of range", count, numel(shape));
  raise(ErrorCode::invalid_problem, std::move(line));
}

void refuse_bad_index(const IndexOperand& operand, std::int64_t count, Dtype dtype,
                      const Shape& shape, const std::byte* elements) {
  std::int64_t least = 0;
  for (std::int64_t n = 0; n < numel(shape); ++n) {
    const std::int64_t value = index_at(dtype, elements, n);
    if (value == operand.ignored) continue;
    if (value < least || value >= operand.extent + (operand.ends ? 1 : 0))
      refuse_bad_index(operand, count, shape, n, value, least);
    if (operand.ends) least = value;
  }
  refuse_bad_index(operand, count, shape, -1, 0, 0);  // changed since they were counted
}

}  // namespace planck
