// Tiles of grid points: where they lie in the input, and the rows and weights of their taps.
#pragma once

#include "planck/loops/cpu/portions.h"
#include "planck/ops/grid_sample/cpu/channels_last.h"
#include "planck/ops/grid_sample/cpu/sample_loops.h"
#include "planck/ops/grid_sample/grid_sample.problem.h"

namespace planck {

// Axes are depth, height, width; a 2-D problem has no points along depth.
template <class C>
struct PointTile {
  int count = 0;
  LocatedAxis<C> axis[3];
};

template <class C>
class PointLocator {
 public:
  PointLocator(const GridSampleProblem& p, const View& grid)
      : mode_(p.mode), dims_(p.geometry().dims), data_(grid.data), dtype_(grid.dtype) {
    const SampleGeometry g = p.geometry();
    NestStrides extent{}, stride{};
    for (int d = 0; d < dims_; ++d) {
      extent[static_cast<std::size_t>(d)] = grid.shape[1 + d];
      stride[static_cast<std::size_t>(d)] = grid.strides[1 + d];
    }
    walk_ = walk_of(make_nest(dims_, extent, {&stride, 1}), 0);
    batch_stride_ = grid.strides[0];
    component_stride_ = grid.strides[dims_ + 1];
    for (int d = 0; d < 3; ++d)
      axis_[d] = grid_sample_math::make_axis<C>(g.in[d], p.padding, p.align_corners);
  }

  int dims() const { return dims_; }
  const SampleAxis<C>& axis(int d) const { return axis_[d]; }

  // Points [begin, begin + count) of image n; count <= kTilePoints.
  void locate(std::int64_t n, std::int64_t begin, int count, PointTile<C>& tile) const {
    tile.count = count;
    C g[3][kTilePoints];  // x, y, z
    C* to = g[0];
    walk_.runs(begin, count, [&](std::int64_t at, std::int64_t stride, std::int64_t length) {
      load(n * batch_stride_ + at, stride, static_cast<int>(length), to);
      to += length;
    });
    for (int d = 3 - dims_; d < 3; ++d)
      sample_loops<C>().locate(mode_, axis_[d], g[2 - d], count, tile.axis[d]);
  }

 private:
  // n points, `stride` apart, to x[i], y = x + kTilePoints, …
  void load(std::int64_t offset, std::int64_t stride, int n, C* x) const {
    if (component_stride_ == 1 && stride == dims_) {  // the usual case: one line
      C line[3 * kTilePoints];
      load_portion(portion_ops(), dtype_, data_, offset, 1, n * dims_, line);
      if (dims_ == 2)
        for (int i = 0; i < n; ++i) {
          x[i] = line[2 * i];
          x[kTilePoints + i] = line[2 * i + 1];
        }
      else
        for (int i = 0; i < n; ++i) {
          x[i] = line[3 * i];
          x[kTilePoints + i] = line[3 * i + 1];
          x[2 * kTilePoints + i] = line[3 * i + 2];
        }
      return;
    }
    for (int k = 0; k < dims_; ++k)
      load_portion(portion_ops(), dtype_, data_, offset + k * component_stride_, stride, n,
                   x + k * kTilePoints);
  }

  SampleMode mode_;
  int dims_;
  void* data_;
  Dtype dtype_;
  Walk walk_;
  std::int64_t batch_stride_, component_stride_;
  SampleAxis<C> axis_[3];
};

// One image as channels-last rows.
template <class C>
struct ImageRows {
  const C* base;
  std::int64_t step[3];  // elements from one row to the next along depth, height, width

  const C* operator()(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return base + z * step[0] + y * step[1] + x * step[2];
  }
};

// The rows of a tile's taps, in the order of the taps; row(z, y, x) names the row of an element,
// `zero` that of all which are outside.
template <class C, class Row>
void tap_rows(const GridSampleProblem& p, const PointLocator<C>& where, const PointTile<C>& tile,
              const Row& row, const C* zero, const C** rows) {
  using grid_sample_math::inside;
  const std::int64_t depth = where.axis(0).size, height = where.axis(1).size,
                     width = where.axis(2).size;
  const bool flat = where.dims() == 2, cubic = p.mode == SampleMode::bicubic;
  const int first_z = flat ? 1 : 0;
  for (int i = 0; i < tile.count; ++i) {
    const std::int64_t y0 = tile.axis[1].index[i], x0 = tile.axis[2].index[i];
    if (flat && !cubic && inside(y0, height - 1) && inside(x0, width - 1)) {  // the usual case
      rows[0] = row(0, y0, x0);
      rows[1] = row(0, y0, x0 + 1);
      rows[2] = row(0, y0 + 1, x0);
      rows[3] = row(0, y0 + 1, x0 + 1);
      rows += 4;
      continue;
    }
    if (cubic) {
      for (int j = 0; j < 4; ++j)
        for (int k = 0; k < 4; ++k) {
          const std::int64_t y = y0 < 0 ? -1 : cubic_index(y0, j, where.axis(1));
          const std::int64_t x = x0 < 0 ? -1 : cubic_index(x0, k, where.axis(2));
          *rows++ = y < 0 || x < 0 ? zero : row(0, y, x);
        }
      continue;
    }
    const std::int64_t z0 = flat ? -1 : tile.axis[0].index[i];
    for (int a = first_z; a < 2; ++a)
      for (int b = 0; b < 2; ++b) {
        const bool in_line = inside(z0 + a, depth) && inside(y0 + b, height);
        *rows++ = in_line && inside(x0, width) ? row(z0 + a, y0 + b, x0) : zero;
        *rows++ = in_line && inside(x0 + 1, width) ? row(z0 + a, y0 + b, x0 + 1) : zero;
      }
  }
}

// The weights of bilinear and trilinear taps, as tap_rows orders them.
template <class C>
void tap_weights(int dims, const PointTile<C>& tile, C* weights) {
  for (int i = 0; i < tile.count; ++i) {
    const C tx = tile.axis[2].t[i], ty = tile.axis[1].t[i];
    const C x[2] = {C(1) - tx, tx}, y[2] = {C(1) - ty, ty};
    if (dims == 2) {
      for (C wy : y)
        for (C wx : x) *weights++ = wx * wy;
      continue;
    }
    const C tz = tile.axis[0].t[i];
    for (C wz : {C(1) - tz, tz})
      for (C wy : y)
        for (C wx : x) *weights++ = wx * wy * wz;
  }
}

// wx[4], wy[4] of each point.
template <class C>
void cubic_tap_weights(const PointTile<C>& tile, C* weights) {
  for (int i = 0; i < tile.count; ++i, weights += 8) {
    C wx[4], wy[4];
    grid_sample_math::cubic_weights(tile.axis[2].t[i], wx);
    grid_sample_math::cubic_weights(tile.axis[1].t[i], wy);
    for (int k = 0; k < 4; ++k) {
      weights[k] = wx[k];
      weights[4 + k] = wy[k];
    }
  }
}

}  // namespace planck
