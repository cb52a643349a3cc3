// Elements that move between tensors along an axis, as loop nests: host code for both devices.
//
// A line is what one index of the axis chooses from: all positions of the axis with the other
// coordinates fixed. Strides "of the lines" are those of a tensor with the axis taken out.
#pragma once

#include "planck/core/view.h"
#include "planck/loops/nest_runs.h"
#include "planck/ops/index/index.problem.h"

namespace planck::index_detail {

inline Strides without_axis(const Strides& strides, int axis) {
  Strides s = strides;
  s[axis] = 0;
  return s;
}

// The index, over items().
inline Strides index_strides(const IndexProblem& p, const View& index) {
  if (!p.by_slice()) return index.strides;
  Strides s = Extents::filled(p.x.rank(), 0);
  s[p.axis] = index.strides[0];
  return s;
}

}  // namespace planck::index_detail
