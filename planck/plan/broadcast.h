// The one shape that inputs of several shapes are seen in.
#pragma once

#include <string_view>

#include "planck/core/result.h"
#include "planck/core/shape.h"

namespace planck {

// The shape both broadcast to: extents are equal, or 1 on one side; axes in front may be missing.
[[nodiscard]] Result<Shape> broadcast_shape(std::string_view op, const Shape& a, const Shape& b);

}  // namespace planck
