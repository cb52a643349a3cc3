// SpatialTransformer: looks at a picture, chooses an affine map and gives the picture seen through
// it. The localizer is a module that gives [N, 6]: the rows of a 2 × 3 matrix, added to the
// identity.
#pragma once

#include "planck/nn/module.h"
#include "planck/ops/elementwise/creation.functions.h"
#include "planck/ops/grid_sample/grid_sample.functions.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck::nn {

// The picture seen through the affine map that the localizer chooses.
template <class B, class Localizer>
struct SpatialTransformer {
  Localizer localizer;
  std::array<std::int64_t, 2> size;  // height and width of the result

  SpatialTransformer(Localizer l, std::array<std::int64_t, 2> result_size)
      : localizer(std::move(l)), size(result_size) {}

  // Places and pixels of 16-bit pictures are computed in f32: 8 bits of a place are a tenth of a
  // pixel.
  Tensor<B> operator()(const Tensor<B>& x) {
    const auto wide = widened(x);
    const auto identity = reshape(eye<Inner<B>>(2, 3, wide.dtype(), wide.device()), {6});
    const auto theta = as_dtype(localizer(x), wide.dtype()) + constant<B>(identity);
    const std::int64_t n = wide.extent(0);
    const auto grid = affine_grid(reshape(theta, {n, 2, 3}), {n, wide.extent(1), size[0], size[1]});
    return as_dtype(grid_sample(wide, grid), x.dtype());
  }
  void visit(auto&& part) { part("localizer", localizer); }
};

}  // namespace planck::nn
