// The inner loops of grid_sample's CPU kernels, one table for each instruction set.
//
// All tensors are channels-last here: a row holds the channels of one element. Forward, a point's
// output is the weighted sum of its taps' rows; backward, an element's gradient is the weighted sum
// of the rows of dout that reach it. A tap outside of the input is a row of zeros.
#pragma once

#include <cstdint>

#include "planck/ops/grid_sample/grid_sample.math.h"

namespace planck {

inline constexpr int kTilePoints = 64;     // points, or elements of dinput, worked on at once
inline constexpr int kChannelBlock = 256;  // channels worked on at once; a power of two
inline constexpr int kMaxTaps = 16;
inline constexpr int kLines = 16, kFewLines = 4;  // of channels that become rows at once

template <class C>
using SampleAxis = grid_sample_math::Axis<C, std::int64_t>;

// Where points lie along one axis. nearest: `index` is the element, −1 outside. bilinear: the lower
// tap. bicubic: the cell.
template <class C>
struct LocatedAxis {
  std::int64_t index[kTilePoints];
  C t[kTilePoints];      // the weight of the upper tap; the fraction
  C slope[kTilePoints];  // of the position by the grid coordinate
};

// Points whose dgrid is wanted: the rows of their taps, of dout and where they lie. Of each row
// `length` elements may be read. Axes are depth, height, width; a 2-D tile has no depth.
template <class C>
struct SlopeTile {
  const C* const* rows;
  const C* const* dout;
  const LocatedAxis<C>* axes;
  int count;
  std::int64_t channels, length;
  C (*dgrid)[kTilePoints];
};

template <class C>
struct SampleLoops {
  void (*locate)(SampleMode, const SampleAxis<C>&, const C* g, int n, LocatedAxis<C>& out);

  // For i in [0, n): out[i][c] = Σ weight * row[c] from left to right, over counts[i] rows (0: +0).
  // rows and weights of all i follow each other. Where counts is null, each has `count`.
  void (*weighted_sums)(const C* const* rows, const C* weights, const int* counts, int count, int n,
                        std::int64_t channels, C* out, std::int64_t out_stride);
  // 16 rows each: Σ wy * (Σ wx * row). weights: wx[4], wy[4] of each i.
  void (*cubic_sums)(const C* const* rows, const C* weights, int n, std::int64_t channels, C* out,
                     std::int64_t out_stride);
  // to[c] = from[c] + to[c]
  void (*add)(const C* from, C* to, std::int64_t channels);

  // bilinear and bicubic: dgrid of a tile.
  void (*tile_slopes)(SampleMode, int dims, const SlopeTile<C>& tile);
  // The pairwise sum of n <= kPortion values, which are overwritten up to the next power of two (4
  // at least).
  C (*tree_sum)(C* values, int n);

  // rows[i * stride + k] = lines[k][i] for i in [0, n) and k in [0, count); count is kFewLines or
  // kLines.
  void (*interleave)(const C* const* lines, int count, int n, C* rows, std::int64_t stride);
  // lines[k][i] = rows[i * stride + k]. stream: past the caches, where that can be done.
  void (*deinterleave)(const C* rows, std::int64_t stride, int count, int n, C* const* lines,
                       bool stream);
};

template <class C>
const SampleLoops<C>& sample_loops();  // of the best instruction set this CPU has

}  // namespace planck
