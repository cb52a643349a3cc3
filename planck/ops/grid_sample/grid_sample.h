// Sampling of an input at the points of a grid, with gradients, and affine grids.
//
// input [N, C, H, W] with grid [N, OH, OW, 2], or input [N, C, D, H, W] with grid
// [N, OD, OH, OW, 3]. A grid entry is (x, y) or (x, y, z), each in [−1, 1] across the input. Along
// each axis:
//   position   s = ((g + 1) * size − 1) / 2             align_corners: s = (g + 1) / 2 * (size − 1)
//   padding    zeros: s stays. border: s clamped to [0, size − 1]. reflection: s mirrored at −1/2
//              and size − 1/2 (align_corners: at 0 and size − 1) until it is between them, then
//              clamped. Bicubic leaves s as it is and pads the index of each tap instead.
//   bilinear   taps floor(s), floor(s) + 1 with weights 1 − t, t for t = s − floor(s)
//   nearest    tap rint(s), ties to even
//   bicubic    taps floor(s) − 1 … floor(s) + 2, cubic convolution of t with a = −0.75. 2-D only
// A tap outside of the input has the value +0. Every operation is rounded in the compute type, none
// is fused; the order of each sum is part of the formula:
//   output     bilinear: ((w00 * v00 + w01 * v01) + w10 * v10) + w11 * v11, the taps in the order
//              of memory, w = wx * wy. 3-D: eight taps likewise, w = (wx * wy) * wz. nearest: the
//              element's bits. bicubic: four row sums Σ wx * v from left to right, then Σ wy * row
//   dinput     one contribution w * dout per tap and point, w as above (bicubic: wx * wy; nearest:
//              dout itself), added up in chunks of 64 (planck/math/chunked_sum.h). Their order:
//              by the point's cell (the index of its first tap: along z, then y, then x), then by
//              its output position, all ascending. Where padding brings several taps of a bicubic
//              point to one element: ascending by (cell y, tap y, cell x, tap x, position), cells
//              as in grid_sample.math.h
//   dgrid      along x: slope * Σ over channels, in the canonical pairwise order, of
//              dout * ((v01 − v00) * (1 − ty) + (v11 − v10) * ty); along the other axes and in 3-D
//              likewise (grid_sample.math.h). bicubic: dout * Σ wy * (Σ wx' * v), and with wy'.
//              slope = ds / dg; where it is 0 dgrid is +0, as it is everywhere for nearest
//   accumulate dinput = dinput + Σ, elements without a contribution untouched; dgrid = dgrid + what
//              it would be. Without accumulate every element is written. Either may be left out.
//   affine     grid[n, p, i] = ((theta[n, i, 0] * x + theta[n, i, 1] * y) + theta[n, i, 2])
//              3-D: with theta[n, i, 2] * z before the last term
//              x = (2 i − (W − 1)) / W of output column i, align_corners: / (W − 1), 0 for W = 1
//   dtheta     Σ over positions of dgrid * x (y, z, or alone) in the canonical pairwise order
//
// Dtypes. float, double, f16, bf16, the same for all operands. Arithmetic is in double for double,
// in float for all others, rounded once at the store.
//
// Views. Any strides; channels-last is as fast as channels-first. No output overlaps anything.
//
// Total. NaN reads as −1. ±Inf is outside: zeros reads nothing, border the nearest element,
// reflection element 0 (bicubic: around 0). Coordinates that are not finite pass no gradient. No
// coordinate makes a kernel touch memory outside its operands. A NaN result is the quiet one
// without a payload.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device);
// cuda:atomic, which is chosen by name only, promises none.
#pragma once

#include "planck/ops/grid_sample/grid_sample.problem.h"

namespace planck {

struct GridSampleDescriptor {
  Shape input, grid;
  SampleMode mode = SampleMode::bilinear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;
  bool accumulate = false;  // GridSampleBackward: add to what dinput and dgrid hold
};

struct AffineGridDescriptor {
  Shape size;  // [N, C, H, W] or [N, C, D, H, W]
  bool align_corners = false;
};

template <Float T>
struct GridSampleOp {
  using Problem = GridSampleProblem;
  using Descriptor = GridSampleDescriptor;
  struct Args {
    TensorView<const T> input, grid;
    TensorView<T> output;
  };
  static GridSampleProblem problem(const Descriptor& d) {
    return {false, dtype_of<T>, d.input, d.grid, d.mode, d.padding, d.align_corners, false};
  }
  static Operands operands(const Args& a) { return {a.input, a.grid, a.output}; }
};

template <Float T>
struct GridSampleBackwardOp {
  using Problem = GridSampleProblem;
  using Descriptor = GridSampleDescriptor;
  struct Args {
    TensorView<const T> dout, input, grid;
    TensorView<T> dinput = {}, dgrid = {};  // either may be left out
  };
  static GridSampleProblem problem(const Descriptor& d) {
    return {true,      dtype_of<T>,     d.input,      d.grid,      d.mode,
            d.padding, d.align_corners, d.accumulate, d.accumulate};
  }
  static Operands operands(const Args& a) { return {a.dout, a.input, a.grid, a.dinput, a.dgrid}; }
};

template <Float T>
struct AffineGridOp {
  using Problem = AffineGridProblem;
  using Descriptor = AffineGridDescriptor;
  struct Args {
    TensorView<const T> theta;  // [N, 2, 3] or [N, 3, 4]
    TensorView<T> grid;         // [N, H, W, 2] or [N, D, H, W, 3]
  };
  static AffineGridProblem problem(const Descriptor& d) {
    return {false, dtype_of<T>, d.size, d.align_corners};
  }
  static Operands operands(const Args& a) { return {a.theta, a.grid}; }
};

template <Float T>
struct AffineGridBackwardOp {
  using Problem = AffineGridProblem;
  using Descriptor = AffineGridDescriptor;
  struct Args {
    TensorView<const T> dgrid;
    TensorView<T> dtheta;
  };
  static AffineGridProblem problem(const Descriptor& d) {
    return {true, dtype_of<T>, d.size, d.align_corners};
  }
  static Operands operands(const Args& a) { return {a.dgrid, a.dtheta}; }
};

template <Float T>
using GridSamplePlan = Plan<GridSampleOp<T>>;
template <Float T>
using GridSampleBackwardPlan = Plan<GridSampleBackwardOp<T>>;
template <Float T>
using AffineGridPlan = Plan<AffineGridOp<T>>;
template <Float T>
using AffineGridBackwardPlan = Plan<AffineGridBackwardOp<T>>;

}  // namespace planck
