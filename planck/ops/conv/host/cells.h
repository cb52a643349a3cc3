// dweight as products along rows of cells: with the cells of an image's row one after the other, a
// few zeros behind each row, and the images of a batch innermost, what a tap of the kernel reads at
// all places is one row of numbers, moved.
//
//   k = (i wide + j) images + n              place (n, i, j) of dy; zeros where j is no place
//   x at k + (down · wide + across) images   what tap (u, v) reads there
//
// Images are filled up to 16 with zeros: the copy engine begins at multiples of 16 bytes.
//
// With steps, an image is as many of cells as there are remainders that taps have modulo the step:
// cell (i, j) of part (r, s) is pixel (i step + r, j step + s).
#pragma once

#include <algorithm>

#include "planck/core/macros.h"
#include "planck/ops/conv/conv.problem.h"

namespace planck::conv_detail {

inline constexpr int kMostStep = 8;

// One axis of the kernel.
struct CellAxis {
  int step = 1, first = 0, reach = 1;  // tap t reads pixel `place step + first + t reach`
  int pixels = 0, places = 0, taps = 0;
  int parts = 0;  // remainders in use
  int remainder[kMostStep] = {}, part[kMostStep] = {};

  CellAxis() = default;
  CellAxis(const ConvProblem& p, int axis) {
    const auto a = static_cast<std::size_t>(axis);
    step = static_cast<int>(p.options.stride[a]);
    first = static_cast<int>(-p.options.padding[a]);
    reach = static_cast<int>(p.options.dilation[a]);
    pixels = static_cast<int>(p.x[2 + axis]), places = static_cast<int>(p.extent(axis));
    taps = static_cast<int>(p.weight[2 + axis]);
    std::fill(part, part + kMostStep, -1);
    for (int t = 0; t < taps; ++t)
      if (int& at = part[of(t).remainder]; at < 0) remainder[parts] = of(t).remainder, at = parts++;
  }
  struct Tap {
    int remainder, cells;  // cells from a place to what it reads
  };
  PLANCK_HD Tap of(int tap) const {
    const int at = first + tap * reach, r = (at % step + step) % step;
    return {r, (at - r) / step};
  }
  int cells() const { return (pixels + step - 1) / step; }  // of a row, at most
};

struct Cells {
  CellAxis down, across;
  int wide = 0, images = 0;

  Cells() = default;
  explicit Cells(const ConvProblem& p)
      : down(p, 0), across(p, 1), images(static_cast<int>((p.batch() + 15) / 16 * 16)) {
    // What is read beyond an end of a row of cells is zero: the row's own, or the last one's.
    int low = 0, high = 0;
    for (int t = 0; t < across.taps; ++t)
      low = std::min(low, across.of(t).cells), high = std::max(high, across.of(t).cells);
    wide = std::max(across.cells() - low, across.places + high);
  }
  int parts() const { return down.parts * across.parts; }
  std::int64_t of_image() const { return std::int64_t{down.cells()} * wide * images; }  // of a part
  std::int64_t of_places() const { return std::int64_t{down.places} * wide * images; }

  struct Tap {
    int part, move;
  };
  PLANCK_HD Tap of(int tap) const {
    const auto u = down.of(tap / across.taps), v = across.of(tap % across.taps);
    return {down.part[u.remainder] * across.parts + across.part[v.remainder],
            (u.cells * wide + v.cells) * images};
  }
};

}  // namespace planck::conv_detail
