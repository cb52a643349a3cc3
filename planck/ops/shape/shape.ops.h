// Ops that see or place elements elsewhere without computing: reshape, permute, expand, slice, flip
// are views of the same storage; cat, pad, slice_assign and repeat put a new tensor together.
//
// All work for every dtype, keep bits, and accept size-0 axes. Axes may be given from the end: −1
// is the last one. Errors name the op, the axis and both values.
#pragma once

#include "planck/plan/value_op.h"

namespace planck {

// Same elements in row-major order, other extents. One extent may be −1: what is left. A copy where
// strides cannot say it.
struct Reshape {
  static constexpr std::string_view name = "reshape";
  Shape shape;
  Result<View> view(const View& x) const;
};

// Axis d of the result is axis axes[d] of x.
struct Permute {
  static constexpr std::string_view name = "permute";
  Extents axes;
  Result<View> view(const View& x) const;
};

// Extents of 1, and axes in front, are repeated without a copy.
struct Expand {
  static constexpr std::string_view name = "expand";
  Shape shape;
  Result<View> view(const View& x) const;
};

// Elements start, start + step, … of one axis, as many as lie before stop (after it, where step is
// negative). start and stop count from the end where negative, and are clamped as in Python.
struct SliceAxis {
  static constexpr std::string_view name = "slice";
  int axis = 0;
  std::int64_t start = 0, stop = INT64_MAX, step = 1;
  Result<View> view(const View& x) const;
  // The elements in terms of an axis of `extent`: first, count and step.
  struct Span {
    std::int64_t first, count, step;
  };
  Span span(std::int64_t extent) const;
};

// The axes of a bit mask, reversed.
struct Flip {
  static constexpr std::string_view name = "flip";
  std::uint32_t axes = 0;
  Result<View> view(const View& x) const;
};

// Tensors one after the other along an axis.
struct Cat {
  static constexpr std::string_view name = "cat";
  static constexpr bool memory_bound = true;
  int axis = 0;
  Result<Assembly> assembly(std::span<const InputSpec> in) const;
};

// `before` and `after` elements of value around each axis; negative ones cut away.
struct Pad {
  static constexpr std::string_view name = "pad";
  static constexpr bool memory_bound = true;
  Extents before, after;
  Scalar value = 0;
  Result<Assembly> assembly(std::span<const InputSpec> in) const;
};

// x with the slice of one axis replaced by the second input.
struct SliceAssign {
  static constexpr std::string_view name = "slice_assign";
  static constexpr bool memory_bound = true;
  SliceAxis slice;
  Result<Assembly> assembly(std::span<const InputSpec> in) const;
};

// A slice of every axis: what x[…] sees.
struct SliceAxes {
  static constexpr std::string_view name = "slice";
  Slice slice;
  Result<View> view(const View& x) const;
};
// x with such a slice replaced by the second input.
struct SliceAxesAssign {
  static constexpr std::string_view name = "slice_assign";
  static constexpr bool memory_bound = true;
  Slice slice;
  Result<Assembly> assembly(std::span<const InputSpec> in) const;
};

// axis of a tensor of that rank, counted from its front; an error names both.
[[nodiscard]] Result<int> checked_axis(std::string_view op, int axis, int rank);
// The shape both broadcast to: extents are equal, or 1 on one side.
[[nodiscard]] Result<Shape> broadcast_shape(std::string_view op, const Shape& a, const Shape& b);
// Of any number of shapes; throws.
Shape broadcast_shapes(std::string_view op, std::initializer_list<const Shape*> shapes);
// `extents` with the one −1 among them found from the count; an error where that cannot be.
[[nodiscard]] Result<Shape> complete_shape(std::string_view op, const Shape& extents,
                                           std::int64_t count);

}  // namespace planck
