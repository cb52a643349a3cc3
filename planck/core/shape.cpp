#include "planck/core/shape.h"

#include <fmt/format.h>

#include "planck/core/exception.h"

namespace planck {

void shape_detail::refuse_rank(std::size_t extents) {
  raise(ErrorCode::invalid_problem,
        fmt::format("shape: {} extents, at most {} are held", extents, kMaxRank));
}

Result<void> check_shape(const Shape& shape, std::string_view what) {
  std::int64_t bytes = 8;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] < 0)
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: extent {} is {}, must be >= 0", what, d, shape[d]));
    if (shape[d] > 0 && __builtin_mul_overflow(bytes, shape[d], &bytes))
      return fail(
          ErrorCode::invalid_problem,
          fmt::format("{}: shape {} has more elements than fit in memory", what, to_string(shape)));
  }
  return {};
}

std::string to_string(const Extents& extents) {
  return fmt::format("[{}]", fmt::join(extents.begin(), extents.end(), ", "));
}

}  // namespace planck
