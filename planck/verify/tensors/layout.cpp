#include "planck/verify/tensors/layout.h"

#include <numeric>
#include <vector>

namespace planck::verify {

namespace {

// Row-major strides over axes in the given order (slowest first), extents padded by `gap`.
Strides strides_in_order(const Shape& shape, const std::vector<int>& order, std::int64_t gap,
                         std::int64_t step) {
  Strides strides = Extents::filled(shape.rank(), 0);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    strides[*it] = step;
    step *= shape[*it] + gap;
  }
  return strides;
}

// What check_operands asks of a packed output.
bool packs_pairs(const Shape& shape, const Strides& strides) {
  bool packed_axis = false;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const bool packs = strides[d] == 1 && shape[d] % 2 == 0;
    if (!packs && strides[d] % 2 != 0) return false;
    packed_axis |= packs;
  }
  return packed_axis;
}

}  // namespace

std::string_view name(Layout layout) {
  constexpr std::string_view kNames[] = {
      "contiguous", "transposed", "reversed",   "channels_last", "sliced",
      "stepped",    "negative",   "misaligned", "broadcast",     "broadcast_inner"};
  return kNames[static_cast<int>(layout)];
}

int broadcast_axis(Layout layout, const Shape& shape) {
  int axis = -1;
  for (int d = 0; d < shape.rank(); ++d)
    if (shape[d] > 1 && (axis < 0 || layout == Layout::broadcast_inner)) axis = d;
  return axis;
}

std::optional<Placement> place(Layout layout, Dtype dtype, const Shape& shape, Role role) {
  const int rank = shape.rank();
  const std::int64_t count = numel(shape);
  Placement p{row_major(shape), 0, count};
  if (layout == Layout::contiguous) return p;
  if (count == 0) return std::nullopt;

  std::vector<int> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  const std::int64_t unit = is_packed(dtype) ? 2 : 1;  // elements of a storage unit
  switch (layout) {
    case Layout::transposed:
      if (rank < 2) return std::nullopt;
      std::swap(order[order.size() - 1], order[order.size() - 2]);
      p.strides = strides_in_order(shape, order, 0, 1);
      break;
    case Layout::reversed:
      if (rank < 2) return std::nullopt;
      p.strides = strides_in_order(shape, {order.rbegin(), order.rend()}, 0, 1);
      break;
    case Layout::channels_last:
      if (rank < 3) return std::nullopt;
      order.erase(order.begin() + 1);
      order.push_back(1);
      p.strides = strides_in_order(shape, order, 0, 1);
      break;
    case Layout::sliced:
      if (rank == 0) return std::nullopt;
      p.strides = strides_in_order(shape, order, is_packed(dtype) ? 2 : 3, 1);
      p.offset = 4;
      break;
    case Layout::stepped:
      if (rank == 0) return std::nullopt;
      p.strides = strides_in_order(shape, order, 0, 2);
      break;
    case Layout::negative:
      for (int d = 0; d < rank; ++d) {
        if (is_packed(dtype) && role == Role::output && d == rank - 1) continue;
        p.offset += (shape[d] - 1) * p.strides[d];
        p.strides[d] = -p.strides[d];
      }
      break;
    case Layout::misaligned:
      p.offset = unit;
      break;
    case Layout::broadcast:
    case Layout::broadcast_inner: {
      const int axis = broadcast_axis(layout, shape);
      if (role == Role::output || axis < 0) return std::nullopt;
      Shape collapsed = shape;
      collapsed[axis] = 1;
      p.strides = row_major(collapsed);
      p.strides[axis] = 0;
      break;
    }
    case Layout::contiguous:
      break;
  }
  p.offset += p.offset % unit;  // element (0, …, 0) is in a low nibble
  std::int64_t highest = p.offset;
  for (int d = 0; d < rank; ++d)
    if (p.strides[d] > 0) highest += (shape[d] - 1) * p.strides[d];
  p.span = highest + 1;
  if (is_packed(dtype) && role == Role::output && !packs_pairs(shape, p.strides))
    return std::nullopt;
  if (p.offset == 0 && is_contiguous(shape, p.strides)) return std::nullopt;
  return p;
}

}  // namespace planck::verify
