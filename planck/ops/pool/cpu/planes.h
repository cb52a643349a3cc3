// The planes of a tensor [.., rows, columns], and their rows dealt out to threads.
#pragma once

#include <algorithm>

#include "planck/core/view.h"
#include "planck/loops/cpu/map.h"
#include "planck/loops/parallel.h"

namespace planck {

class Planes {
 public:
  explicit Planes(const View& v)
      : view(&v), row(v.strides[v.shape.rank() - 2]), column(v.strides[v.shape.rank() - 1]) {
    for (int d = 0; d + 2 < v.shape.rank(); ++d) {
      const int last = rank_ - 1;
      if (rank_ > 0 && stride_[last] == v.shape[d] * v.strides[d]) {  // axes that are one
        extent_[last] *= v.shape[d];
        stride_[last] = v.strides[d];
      } else {
        extent_[rank_] = v.shape[d];
        stride_[rank_++] = v.strides[d];
      }
    }
  }

  // Where a plane starts, in elements.
  std::int64_t offset(std::int64_t plane) const {
    std::int64_t at = 0;
    for (int d = rank_ - 1; d > 0; --d) {
      const std::int64_t outer = plane / extent_[d];
      at += (plane - outer * extent_[d]) * stride_[d];
      plane = outer;
    }
    return at + plane * stride_[0];
  }
  template <class T>
  T* at(std::int64_t plane) const {
    return static_cast<T*>(view->data) + offset(plane);
  }

  const View* view;
  std::int64_t row, column;  // strides

 private:
  int rank_ = 0;
  Extents extent_ = Extents::filled(kMaxRank, 1), stride_ = Extents::filled(kMaxRank, 0);
};

// Calls work(plane, first row, last row) for all rows of all planes, in tasks of about
// kTaskElements.
template <class Work>
void for_plane_rows(const Stream& stream, std::int64_t planes, std::int64_t rows,
                    std::int64_t elements_per_row, Work&& work) {
  const std::int64_t total = planes * rows;
  const std::int64_t together =
      std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, elements_per_row));
  parallel_for(stream, (total + together - 1) / together, [&](std::int64_t task) {
    const std::int64_t end = std::min(total, (task + 1) * together);
    for (std::int64_t at = task * together; at < end;) {
      const std::int64_t plane = at / rows, first = at - plane * rows;
      const std::int64_t last = std::min(rows, first + end - at);
      work(plane, first, last);
      at += last - first;
    }
  });
}

}  // namespace planck
