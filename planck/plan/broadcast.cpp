#include "planck/plan/broadcast.h"

#include <fmt/format.h>

#include <algorithm>

namespace planck {

Result<Shape> broadcast_shape(std::string_view op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Extents::filled(rank, 1);
  for (int d = 0; d < rank; ++d) {
    const int da = d - (rank - a.rank()), db = d - (rank - b.rank());
    const std::int64_t ea = da < 0 ? 1 : a[da], eb = db < 0 ? 1 : b[db];
    if (ea != eb && ea != 1 && eb != 1)
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: shapes {} and {} do not broadcast: {} against {}", op,
                              to_string(a), to_string(b), ea, eb));
    out[d] = ea == 1 ? eb : ea;
  }
  return out;
}

}  // namespace planck
