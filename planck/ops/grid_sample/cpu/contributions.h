// What sorted points contribute to the elements of an image, in the canonical order.
#pragma once

#include "planck/ops/grid_sample/cpu/cell_lists.h"

namespace planck {

// As cubic_weights and linear_taps have it.
template <class C>
C tap_weight(SampleMode mode, C t, int tap) {
  if (mode == SampleMode::nearest) return C(1);
  if (mode == SampleMode::bilinear) return tap == 0 ? C(1) - t : t;
  using grid_sample_math::cubic_far, grid_sample_math::cubic_near;
  return tap == 0   ? cubic_far(t + C(1))
         : tap == 1 ? cubic_near(t)
         : tap == 2 ? cubic_near(C(1) - t)
                    : cubic_far(C(2) - t);
}

// The contributions to one element of an image.
template <class C, class P>
class Contributions {
 public:
  Contributions(const GridSampleProblem& p, const PointLocator<C>& where,
                const CellLists<C, P>& lists, std::int64_t image, std::int64_t z, std::int64_t y)
      : mode_(p.mode),
        dims_(where.dims()),
        lists_(&lists),
        x_axis_(where.axis(2)),
        ends_(lists.ends(image)),
        entries_(lists.entries(image)) {
    if (dims_ == 3)
      z_ = pairs_of(mode_, where.axis(0), z);
    else
      z_.pair[z_.count++] = {0, 0};
    y_ = pairs_of(mode_, where.axis(1), y);
  }

  void move_to(std::int64_t x) {
    x_ = pairs_of(mode_, x_axis_, x);
    total_ = 0;
    each_cell([&](const P* end, int, int, int) { total_ += end[1] - end[0]; });
  }
  std::int64_t total() const { return total_; }

  // Calls f(point, weight) for contributions [first, last), in order.
  template <class F>
  void each(std::int64_t first, std::int64_t last, F&& f) const {
    std::int64_t at = 0;  // of the cell's first
    each_cell([&](const P* end, int tap_z, int tap_y, int tap_x) {
      const std::int64_t count = end[1] - end[0];
      const std::int64_t from = std::max<std::int64_t>(first - at, 0),
                         to = std::min(last - at, count);
      for (std::int64_t k = from; k < to; ++k) {
        const CellPoint<C, P>& e = entries_[end[0] + k];
        C w = tap_weight(mode_, e.t[2], tap_x);
        if (mode_ != SampleMode::nearest) w = w * tap_weight(mode_, e.t[1], tap_y);
        if (mode_ != SampleMode::nearest && dims_ == 3) w = w * tap_weight(mode_, e.t[0], tap_z);
        f(e.point, w);
      }
      at += count;
    });
  }

 private:
  template <class F>
  void each_cell(F&& f) const {
    for (int i = 0; i < z_.count; ++i)
      for (int j = 0; j < y_.count; ++j) {
        const P* line =
            ends_ + (z_.pair[i].cell * lists_->cells(1) + y_.pair[j].cell) * lists_->cells(2);
        for (int k = 0; k < x_.count; ++k)
          f(line + x_.pair[k].cell, z_.pair[i].tap, y_.pair[j].tap, x_.pair[k].tap);
      }
  }

  SampleMode mode_;
  int dims_;
  const CellLists<C, P>* lists_;
  SampleAxis<C> x_axis_;
  const P* ends_;
  const CellPoint<C, P>* entries_;
  AxisPairs z_, y_, x_;
  std::int64_t total_ = 0;
};

// The cells that touch a row of elements, for bilinear and trilinear sampling: two lines of cells
// per dimension beyond x, those first whose upper taps fall on the row.
template <class C, class P>
struct CellLines {
  const P* end[4];
  int count = 0;

  CellLines(const CellLists<C, P>& lists, int dims, std::int64_t image, std::int64_t z,
            std::int64_t y) {
    for (int tz = 1; tz >= (dims == 3 ? 0 : 1); --tz)
      for (int ty = 1; ty >= 0; --ty) {
        const std::int64_t cell_z = dims == 3 ? z + 1 - tz : 0, cell_y = y + 1 - ty;
        end[count++] = lists.ends(image) + (cell_z * lists.cells(1) + cell_y) * lists.cells(2);
      }
  }
  std::int64_t total(std::int64_t x) const {
    std::int64_t m = 0;
    for (int i = 0; i < count; ++i) m += end[i][x + 2] - end[i][x];
    return m;
  }
  // Calls f(point, weight) in order.
  template <int kDims, class F>
  void each(const CellPoint<C, P>* entries, std::int64_t x, F&& f) const {
    // Two lines as one loop: how long each is, nobody can predict.
    for (int i = 0; i < count; i += 2) {
      const P *a = end[i] + x, *b = end[i + 1] + x;
      const P first = a[2] - a[0], total = first + b[2] - b[0];
      for (P k = 0; k < total; ++k) {
        const bool upper_y = k < first;  // the line before: this row is its upper tap
        const P at = (upper_y ? a[0] : b[0] - first) + k;
        const CellPoint<C, P>& e = entries[at];
        C w = (at < (upper_y ? a[1] : b[1]) ? e.t[2] : C(1) - e.t[2]) *
              (upper_y ? e.t[1] : C(1) - e.t[1]);
        if constexpr (kDims == 3) w = w * (i == 0 ? e.t[0] : C(1) - e.t[0]);
        f(e.point, w);
      }
    }
  }
};

}  // namespace planck
