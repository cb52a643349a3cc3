// grid_sample and affine_grid as plain values: which op, which dtype, which shapes and attributes.
#pragma once

#include <array>

#include "planck/ops/grid_sample/grid_sample.math.h"
#include "planck/plan/plan.h"

namespace planck {

// Extents of both tensors. A 2-D problem has depth 1 on both sides.
struct SampleGeometry {
  int dims = 2;  // coordinates of a point: 2 (x, y) or 3 (x, y, z)
  std::int64_t batch = 0, channels = 0;
  std::int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};  // depth, height, width

  std::int64_t pixels() const { return in[0] * in[1] * in[2]; }     // of one image and channel
  std::int64_t points() const { return out[0] * out[1] * out[2]; }  // of one image
};

struct GridSampleProblem {
  bool backward = false;
  Dtype dtype = Dtype::f32;
  Shape input, grid;  // [N, C, (D,) H, W] and [N, (OD,) OH, OW, 2 or 3]
  SampleMode mode = SampleMode::bilinear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;
  bool accumulate = false;       // backward: add to what dinput holds
  bool accumulate_grid = false;  // backward: add to what dgrid holds

  Shape output() const;  // [N, C, (OD,) OH, OW]
  SampleGeometry geometry() const;
  int taps() const;  // elements a point reads from each channel

  bool operator==(const GridSampleProblem&) const = default;

  // What Selection<GridSampleProblem> needs.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, 5> specs() const;
  std::span<const Kernel<GridSampleProblem>> kernels() const;
  Dtype element() const { return dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

struct AffineGridProblem {
  bool backward = false;
  Dtype dtype = Dtype::f32;
  Shape size;  // of the output to be sampled: [N, C, (D,) H, W]; C means nothing here
  bool align_corners = false;

  int dims() const { return size.rank() - 2; }
  Shape theta() const;  // [N, 2, 3] or [N, 3, 4]
  Shape grid() const;   // [N, (D,) H, W, 2 or 3]

  bool operator==(const AffineGridProblem&) const = default;

  // What Selection<AffineGridProblem> needs.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, 2> specs() const;
  std::span<const Kernel<AffineGridProblem>> kernels() const;
  Dtype element() const { return dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

// Operand positions, as in the op's table of operands.
namespace sample_operand {
struct Forward {
  enum { input, grid, output };
};
struct Backward {
  enum { dout, input, grid, dinput, dgrid };
};
struct AffineGrid {
  enum { theta, grid };
};
struct AffineGridBackward {
  enum { dgrid, dtheta };
};
}  // namespace sample_operand

// grid_sample, affine_grid and their backwards, for the registry.
std::vector<OpEntry> grid_sample_ops();

}  // namespace planck
