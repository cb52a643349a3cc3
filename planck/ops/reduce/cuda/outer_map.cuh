// Where the groups of columns of a reduction begin, on the device: x as [outer, length, inner].
#pragma once

#include "planck/loops/rows/cuda/axis_map.cuh"
#include "planck/ops/reduce/host/layout.h"

namespace planck {

inline AxisMap outer_map_of(const ReduceLayout& l) {
  Nest rest = l.kept;
  --rest.rank;
  rest.operands = 1;
  if (rest.rank > 0) return AxisMap::of(walk_of(rest, 0));
  AxisMap one;
  one.start = rest.offset[0];
  return one;
}

}  // namespace planck
