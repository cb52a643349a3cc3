// The two gradients of grid_sample on the CPU, for a group of images whose tensors are rows.
#pragma once

#include <atomic>

#include "planck/core/stream.h"
#include "planck/ops/grid_sample/cpu/cell_lists.h"
#include "planck/ops/grid_sample/cpu/staging.h"

namespace planck {

// Rows of the images of a group, and where they come from.
template <class C>
struct GroupRows {
  const C* base;                     // of the group's first image; null where there is none
  std::int64_t image_step, step[3];  // elements from image to image; along depth, height, width
  std::int64_t length;               // that may be read of a row: its channels, and zeros

  ImageRows<C> image(std::int64_t i) const {
    return {base == nullptr ? nullptr : base + i * image_step, {step[0], step[1], step[2]}};
  }
};

// dgrid of images [n0, n0 + images).
template <class C>
void grid_gradient(const Stream& stream, const GridSampleProblem& p, const PointLocator<C>& where,
                   const GroupRows<C>& input, const GroupRows<C>& dout, const C* zero,
                   const View& dgrid, std::int64_t n0, std::int64_t images);

// What elements with very many contributions need: their list, and partial sums of one of them.
template <class C>
struct HotElements {
  static constexpr std::int64_t kHot = 1 << 12;   // contributions
  static constexpr std::int64_t kSpan = 64 * 64;  // contributions of a partial sum
  static std::size_t list_bytes(const GridSampleProblem& p, std::int64_t images);
  static std::size_t partial_bytes(const GridSampleProblem& p);

  std::int64_t* list;  // image * pixels + element
  C* partial;          // rows
};

// dinput of images [n0, n0 + images), from their sorted points.
template <class C, class P>
void input_gradient(const Stream& stream, const GridSampleProblem& p, const PointLocator<C>& where,
                    const CellLists<C, P>& lists, const GroupRows<C>& dout,
                    const HotElements<C>& hot, const Planes& dinput, std::int64_t n0,
                    std::int64_t images);

}  // namespace planck
