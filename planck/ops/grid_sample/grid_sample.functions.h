// grid_sample and affine_grid on tensors.
#pragma once

#include "planck/backend/call.h"
#include "planck/ops/grid_sample/grid_sample.ops.h"

namespace planck {

// input [N, C, (D,) H, W] at the points of grid [N, (OD,) OH, OW, 2 or 3]
template <class B>
Tensor<B> grid_sample(const Tensor<B>& input, const Tensor<B>& grid, const GridSample& how = {}) {
  return call(how, input, grid);
}
// The grid of an affine map for an output of `size` [N, C, (D,) H, W]; C means nothing here.
template <class B>
Tensor<B> affine_grid(const Tensor<B>& theta, const Shape& size, bool align_corners = false) {
  return call(AffineGrid{size, align_corners}, theta);
}

}  // namespace planck
