// SpatialTransformer: looks at a picture, chooses an affine map and gives the picture seen through
// it. The localizer is a module that gives [N, 6]: the rows of a 2 × 3 matrix, added to the
// identity.
#pragma once

#include "planck/nn/module.h"
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

  Tensor<B> operator()(const Tensor<B>& x) {
    const auto identity = Tensor<Inner<B>>::from({1.f, 0.f, 0.f, 0.f, 1.f, 0.f}, {6}, x.device());
    const auto theta = localizer(x) + constant<B>(identity);
    const std::int64_t n = x.extent(0);
    return grid_sample(x,
                       affine_grid(reshape(theta, {n, 2, 3}), {n, x.extent(1), size[0], size[1]}));
  }
  void visit(auto&& part) { part("localizer", localizer); }
};

}  // namespace planck::nn
