// grid_sample and affine_grid as values; grid_sample.h says what they compute.
#pragma once

#include "planck/ops/grid_sample/grid_sample.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

// input [N, C, (D,) H, W], grid [N, (OD,) OH, OW, 2 or 3] → output
struct GridSample {
  static constexpr std::string_view name = "grid_sample";
  SampleMode mode = SampleMode::bilinear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;

  GridSampleProblem problem(std::span<const InputSpec> in) const { return of(in[0], in[1], false); }
  GridSampleProblem of(const InputSpec& input, const InputSpec& grid, bool backward) const {
    return GridSampleProblem{.backward = backward,
                             .dtype = input.dtype,
                             .input = input.shape,
                             .grid = grid.shape,
                             .mode = mode,
                             .padding = padding,
                             .align_corners = align_corners};
  }
};
// dout, input, grid → dinput and dgrid, or one of them
template <bool Input, bool Grid>
struct GridSampleBackward {
  static_assert(Input || Grid);
  static constexpr std::string_view name = "grid_sample_backward";
  static constexpr unsigned skipped_outputs = Input ? 0 : 1;
  using Gives = std::conditional_t<Input && Grid, Kinds<FloatKind, FloatKind>, FloatKind>;
  GridSample forward;
  GridSampleProblem problem(std::span<const InputSpec> in) const {
    return forward.of(in[1], in[2], true);
  }
};
// theta [N, 2, 3] or [N, 3, 4] → grid for an output of this size
struct AffineGrid {
  static constexpr std::string_view name = "affine_grid";
  Shape size;  // [N, C, (D,) H, W]
  bool align_corners = false;
  AffineGridProblem problem(std::span<const InputSpec> in) const {
    return AffineGridProblem{
        .backward = false, .dtype = in[0].dtype, .size = size, .align_corners = align_corners};
  }
};
struct AffineGridBackward {
  static constexpr std::string_view name = "affine_grid_backward";
  AffineGrid forward;
  AffineGridProblem problem(std::span<const InputSpec> in) const {
    return AffineGridProblem{.backward = true,
                             .dtype = in[0].dtype,
                             .size = forward.size,
                             .align_corners = forward.align_corners};
  }
};

}  // namespace planck
