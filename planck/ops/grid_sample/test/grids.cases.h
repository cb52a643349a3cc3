// Grids for cases and benchmarks of grid_sample, as ways to rewrite a case's "grid".
#pragma once

#include <span>

#include "planck/verify/case.h"

namespace planck::verify {

enum class GridKind : std::uint8_t {
  random,      // uniform, one point in four outside
  identity,    // the input's own elements where both have the same extents
  affine,      // turned by 17 degrees, shrunk and moved a little, another way for each image
  turned,      // the same by 37 degrees: for benchmarks
  one_point,   // all points of an image at one place
  outside,     // all points off the input
  boundaries,  // centers and edges of elements, and just beyond both ends
  hostile,     // NaN, infinities, values beyond all integers, ordinary ones
};
inline constexpr GridKind kAllGrids[] = {
    GridKind::random,  GridKind::identity,   GridKind::affine, GridKind::one_point,
    GridKind::outside, GridKind::boundaries, GridKind::hostile};

Case::Prepare put_grid(GridKind kind);

}  // namespace planck::verify
