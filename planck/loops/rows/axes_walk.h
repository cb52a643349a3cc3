// Some of a view's axes, in row-major order, as one walk.
#pragma once

#include "planck/core/view.h"
#include "planck/loops/nest.h"

namespace planck {

inline Walk axes_walk(const View& v, unsigned axes) {
  NestStrides extent{}, stride{};
  std::size_t rank = 0;
  for (int d = 0; d < v.shape.rank(); ++d) {
    if (((axes >> d) & 1u) == 0) continue;
    extent[rank] = v.shape[d];
    stride[rank++] = v.strides[d];
  }
  return walk_of(make_nest(static_cast<int>(rank), extent, {&stride, 1}), 0);
}

}  // namespace planck
