// How a tensor is cut into groups that share a scale and a zero point, and what its integers are;
// and what becomes of the groups where the tensor is seen in another shape.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "planck/core/dtype.h"
#include "planck/core/result.h"
#include "planck/core/shape.h"

namespace planck {

enum class QuantKind : std::uint8_t {
  quantize,
  quantize_backward,
  dequantize,
  dequantize_backward,
  fake_quantize,
  fake_quantize_backward,
  dynamic_quantize,
};
enum class Granularity : std::uint8_t { per_tensor, per_channel, per_token, per_group };
enum class QuantMath : std::uint8_t { divide, reciprocal };

struct QuantProblem;

// How a tensor is cut into groups, and what its integers are.
struct QuantScheme {
  Granularity granularity = Granularity::per_tensor;
  int axis = 0;                        // per_channel
  std::int64_t group = 128;            // per_group: elements per group, along the last axis
  Dtype dtype = Dtype::s8;             // of q: s8, u8, s4 or u4
  std::optional<IntRange> range = {};  // the dtype's own unless set
  QuantMath math = QuantMath::divide;
  bool operator==(const QuantScheme& other) const {
    return granularity == other.granularity &&
           (granularity != Granularity::per_channel || axis == other.axis) &&
           (granularity != Granularity::per_group || group == other.group) &&
           dtype == other.dtype && math == other.math && lowest() == other.lowest() &&
           highest() == other.highest();
  }
  std::int32_t lowest() const { return range ? range->lowest : int_range(dtype).lowest; }
  std::int32_t highest() const { return range ? range->highest : int_range(dtype).highest; }

  // An axis below 0 counts from the end.
  QuantProblem problem(QuantKind kind, Dtype element, const Shape& shape) const;
  // Shape of the scales and zero points of a tensor.
  Shape group_shape(const Shape& shape) const;
};

// "per_channel axis=0 s8 -127..127 divide": all of a scheme in one line, and back.
std::string to_string(const QuantScheme& scheme);
[[nodiscard]] Result<QuantScheme> parse_scheme(std::string_view text);

// An axis below 0 counted from the front.
QuantScheme with_axis_from_front(const QuantScheme& scheme, const Shape& shape);

// Whether these are the parts of a quantized tensor; the error names the part and both values.
struct QuantizedParts {
  Dtype values_dtype, scale_dtype, zero_point_dtype;
  Shape values, scale, zero_point;
};
[[nodiscard]] Result<void> check_parts(const QuantScheme& scheme, const QuantizedParts& parts);

// What the scales and zero points of a tensor go through when the tensor is permuted, sliced or
// expanded, and its scheme afterwards. Axes are those of group_shape().
struct MovedGroups {
  QuantScheme scheme;
  std::optional<Extents> permutation = {};
  struct Slice {
    int axis;
    std::int64_t first, count, step;
  };
  std::optional<Slice> slice = {};
  std::optional<Shape> wide = {};  // that they are expanded to
};
// Each says what it would cut apart where the groups cannot follow. Axes count from the front.
[[nodiscard]] Result<QuantScheme> reshaped(const QuantScheme& scheme, const Shape& from,
                                           const Shape& to);
[[nodiscard]] Result<MovedGroups> permuted(const QuantScheme& scheme, const Shape& shape,
                                           const Extents& axes);
[[nodiscard]] Result<MovedGroups> sliced(const QuantScheme& scheme, const Shape& shape, int axis,
                                         std::int64_t first, std::int64_t count, std::int64_t step);
// Where the tensor is expanded to a shape that it can have; groups always follow.
MovedGroups expanded(const QuantScheme& scheme, const Shape& from, const Shape& to);
// The axes of group_shape() that are reversed with these axes of the tensor, both as bit masks.
std::uint32_t flipped_groups(const QuantScheme& scheme, const Shape& shape, std::uint32_t axes);

// Tensors one after the other along an axis: the scheme of the whole, and the axis of its
// group_shape() along which their scales follow each other. Tensors of one scale each have it once
// for each index of the axis.
struct JoinedGroups {
  QuantScheme scheme;
  int axis;
};
[[nodiscard]] Result<JoinedGroups> joined(const QuantScheme& scheme, const Shape& shape, int axis);
// Whether tensor `number` of those that are joined is quantized as the first.
[[nodiscard]] Result<void> check_joined(std::size_t number, const QuantScheme& scheme, Dtype scale,
                                        const QuantScheme& first, Dtype first_scale);

// The shapes in which the scales of the factors of a matrix product broadcast over the product; the
// error says which factor has groups that do not.
struct FactorGroups {
  Shape rows, columns;
};
[[nodiscard]] Result<FactorGroups> factor_groups(const QuantScheme& a, const Shape& shape_a,
                                                 const QuantScheme& b, const Shape& shape_b);
// Throws where a zero point is so large that sums of products with it are not exact in 64 bits.
void check_zero_points(std::string_view op, std::span<const std::int32_t> zero_points);

}  // namespace planck
