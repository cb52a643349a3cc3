// Ways to lay a tensor out in memory, and where each puts the elements.
//
// A kernel must give the same bits for all of them. Layouts that are illegal for an operand (an
// output that broadcasts, packed outputs whose neighbours do not share a byte) have no placement.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>

#include "planck/plan/op.h"

namespace planck::verify {

enum class Layout : std::uint8_t {
  contiguous,
  transposed,       // the last two axes swapped in memory
  reversed,         // all axes in the opposite order in memory
  channels_last,    // the second of three or more axes innermost in memory
  sliced,           // gaps after every row, plane, …; starts inside its buffer
  stepped,          // every other element along the last axis
  negative,         // every axis walks backwards (of packed outputs, all but the packed one)
  misaligned,       // contiguous, one storage unit past the aligned start
  broadcast,        // stride 0 along the first axis longer than 1; inputs only
  broadcast_inner,  // stride 0 along the last axis longer than 1; inputs only
};

inline constexpr std::array<Layout, 10> kAllLayouts = {
    Layout::contiguous, Layout::transposed,     Layout::reversed, Layout::channels_last,
    Layout::sliced,     Layout::stepped,        Layout::negative, Layout::misaligned,
    Layout::broadcast,  Layout::broadcast_inner};

std::string_view name(Layout layout);
constexpr bool is_broadcast(Layout layout) { return layout >= Layout::broadcast; }
// The axis a broadcasting layout repeats, −1 where the shape has none longer than 1.
int broadcast_axis(Layout layout, const Shape& shape);

// In elements of the operand.
struct Placement {
  Strides strides;
  std::int64_t offset = 0;  // of element (0, …, 0) from the start of the buffer
  std::int64_t span = 0;    // elements the buffer must hold
};

// Nothing where the layout is illegal for this operand, or would be no other than the contiguous
// one.
std::optional<Placement> place(Layout layout, Dtype dtype, const Shape& shape, Role role);

// Calls f(flat row-major index, element offset) for every index of the shape.
template <class F>
void for_each_element(const Shape& shape, const Strides& strides, F&& f) {
  const std::int64_t count = numel(shape);
  if (count == 0) return;
  Extents index = Extents::filled(shape.rank(), 0);
  const int last = shape.rank() - 1;
  std::int64_t offset = 0;
  for (std::int64_t flat = 0;;) {
    if (last < 0) return f(flat, offset);
    for (std::int64_t k = 0; k < shape[last]; ++k) f(flat++, offset + k * strides[last]);
    if (flat == count) return;
    for (int d = last - 1;; --d) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= shape[d] * strides[d];
      index[d] = 0;
    }
  }
}

}  // namespace planck::verify
