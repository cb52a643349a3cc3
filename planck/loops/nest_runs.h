// Nests over operands of one shape in its row-major order, their runs, and axes merged into one:
// host code of both devices.
#pragma once

#include <initializer_list>
#include <optional>

#include "planck/core/view.h"
#include "planck/loops/nest.h"

namespace planck {

// Operands of one shape, in its row-major order.
inline Nest nest_over(const Shape& shape, std::initializer_list<Strides> operands) {
  Nest nest;
  nest.rank = shape.rank();
  nest.operands = static_cast<int>(operands.size());
  for (int d = 0; d < shape.rank(); ++d) nest.extent[static_cast<std::size_t>(d)] = shape[d];
  std::size_t k = 0;
  for (const Strides& s : operands) {
    for (int d = 0; d < shape.rank(); ++d) nest.stride[k][static_cast<std::size_t>(d)] = s[d];
    ++k;
  }
  return nest;
}

// Calls f(offsets, length) for the runs along the innermost axis that make up positions
// [begin, begin + count), in order; offsets[k] is operand k's.
template <class F>
void nest_runs(const Nest& nest, std::int64_t begin, std::int64_t count, F&& f) {
  if (count <= 0) return;
  const auto last = static_cast<std::size_t>(nest.rank - 1);
  const auto operands = static_cast<std::size_t>(nest.operands);
  NestStrides at{};
  std::array<std::int64_t, kMaxNestOperands> here = nest.offset;
  for (auto d = static_cast<std::size_t>(nest.rank); d-- > 0;) {
    at[d] = begin % nest.extent[d];
    begin /= nest.extent[d];
    for (std::size_t k = 0; k < operands; ++k) here[k] += at[d] * nest.stride[k][d];
  }
  while (true) {
    const std::int64_t left = nest.extent[last] - at[last];
    const std::int64_t length = left < count ? left : count;
    f(here, length);
    count -= length;
    if (count == 0) return;
    for (std::size_t k = 0; k < operands; ++k) here[k] -= at[last] * nest.stride[k][last];
    at[last] = 0;
    for (std::size_t d = last; d-- > 0;) {
      for (std::size_t k = 0; k < operands; ++k) here[k] += nest.stride[k][d];
      if (++at[d] < nest.extent[d]) break;
      for (std::size_t k = 0; k < operands; ++k) here[k] -= nest.extent[d] * nest.stride[k][d];
      at[d] = 0;
    }
  }
}

// Axes [begin, end) of a view as one, where their strides allow: the extent and the stride.
struct MergedAxes {
  std::int64_t extent = 1, stride = 1;
};
inline std::optional<MergedAxes> merged_axes(const View& v, int begin, int end) {
  MergedAxes m;
  bool any = false;
  for (int d = begin; d < end; ++d) {
    if (v.shape[d] == 0) return MergedAxes{0, 1};
    if (v.shape[d] == 1) continue;
    if (any && m.stride != v.strides[d] * v.shape[d]) return std::nullopt;
    m.extent *= v.shape[d];
    m.stride = v.strides[d];
    any = true;
  }
  return m;
}

// A view as the matrix of rows that indices choose from: axes up to `axis` are rows, those behind
// it columns.
inline std::optional<View> as_rows(const View& v, int axis) {
  const auto rows = merged_axes(v, 0, axis + 1);
  const auto columns = merged_axes(v, axis + 1, v.shape.rank());
  if (!rows || !columns) return std::nullopt;
  return View{
      v.data, v.dtype, {rows->extent, columns->extent}, {rows->stride, columns->stride}, true};
}

}  // namespace planck
