// Points of a group of images sorted by cell, ascending positions within each: a stable counting
// sort, so what comes out does not depend on how the work is cut.
//
// An image's cells are numbered row-major over (z, y, x). Points that reach no element are left
// out. Where a group has few images, points are first dealt to bands of cells, so that several
// tasks can sort an image.
#pragma once

#include <algorithm>

#include "planck/ops/grid_sample/cpu/points.h"

namespace planck {

// Cells along an axis.
template <class C>
std::int64_t cells_of(SampleMode mode, const SampleAxis<C>& axis) {
  if (mode == SampleMode::nearest) return axis.size;
  if (mode == SampleMode::bilinear) return axis.size + 1;
  return grid_sample_math::cubic_cells(axis);
}

// Which taps of which cells fall on an element, along one axis; ascending by cell, then tap.
struct AxisPairs {
  struct Pair {
    std::int64_t cell;
    int tap;
  };
  Pair pair[24];
  int count = 0;
};
template <class C>
AxisPairs pairs_of(SampleMode mode, const SampleAxis<C>& axis, std::int64_t index);

// P: int32 where points and cells of an image fit, else int64.
template <class C, class P>
struct CellPoint {
  P point;
  C t[3];
};

template <class C, class P>
class CellLists {
 public:
  using Entry = CellPoint<C, P>;

  // Of `images` images. Null workspace: only bytes() may be used.
  CellLists(const GridSampleProblem& p, std::int64_t images, std::byte* workspace);
  std::size_t bytes() const { return bytes_; }

  // Sorts the points of images [n0, n0 + images); images is no more than at construction.
  void sort(const Stream& stream, const PointLocator<C>& where, std::int64_t n0,
            std::int64_t images);

  std::int64_t cells(int axis) const { return cells_[axis]; }
  // Of one image: entries of cell c are entries[ends[c] … ends[c + 1]).
  const P* ends(std::int64_t image) const { return ends_ + image * (all_cells_ + 1); }
  const Entry* entries(std::int64_t image) const { return entries_ + image * points_; }

 private:
  void locate(const PointLocator<C>& where, std::int64_t n, std::int64_t image, std::int64_t block);
  void deal(std::int64_t image, std::int64_t block);
  void sort_band(std::int64_t image, std::int64_t band);
  std::int64_t* counts(std::int64_t image, std::int64_t block) const {
    return counts_ + (image * blocks_ + block) * bands_;
  }

  SampleMode mode_;
  int dims_;
  std::int64_t points_, cells_[3], all_cells_;
  std::int64_t blocks_, bands_;
  int band_shift_;  // band of a cell: cell >> band_shift_
  std::size_t bytes_;

  std::int64_t* counts_;  // [image][block][band]: points; then where they go
  P* keys_;               // [image][point]: the cell, −1 for none
  P* dealt_;              // [image][point]: points by band
  C* fractions_;          // [image][point][3]
  P* ends_;
  Entry* entries_;
};

}  // namespace planck
