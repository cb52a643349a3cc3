// The quantize family as one plain value: op, granularity, dtypes, range. quantize.h says what the
// ops compute.
//
// All granularities are one index map. View a row-major tensor as [outer, channels, inner]: the
// group of element i is (i / inner) % channels. The same map as strides: scale and zero_point are
// read as operands of the tensor's shape (for per_group with the last axis split in two) whose
// strides are 0 along every axis that a group spans.
#pragma once

#include <array>
#include <optional>

#include "planck/plan/plan.h"
#include "planck/plan/registry.h"

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

inline constexpr int kQuantOperands = 7;  // the most operands an op of the family has

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
    return granularity == other.granularity && axis == other.axis && group == other.group &&
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

// A scheme on one tensor, for one op.
struct QuantProblem : QuantScheme {
  QuantKind kind = QuantKind::quantize;
  Dtype element_dtype = Dtype::f32;  // of x, y, dx, dy, scale
  Shape shape;
  bool learnable = false;  // fake_quantize_backward: also dscale and dzero_point
  bool symmetric = true;   // dynamic_quantize

  // The view of the tensor that the index map is about.
  struct Map {
    std::int64_t outer, channels, inner;
    std::int64_t members() const { return outer * inner; }  // elements of a group
  };
  Map map() const;
  // Shape of scale and zero_point.
  Shape group_shape() const;
  // The tensor's shape with, for per_group, the last axis as [last / group, group]: up to nine
  // extents.
  struct Axes {
    int rank = 0;
    std::array<std::int64_t, kMaxRank + 1> extent{};
  };
  Axes axes() const;
  // Strides along axes(): of an operand of the tensor's shape, and of one of group_shape().
  std::array<std::int64_t, kMaxRank + 1> element_strides(const View& v) const;
  std::array<std::int64_t, kMaxRank + 1> group_strides(const View& v) const;

  bool operator==(const QuantProblem&) const = default;

  // What Selection<QuantProblem> needs.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kQuantOperands> specs() const;
  std::span<const Kernel<QuantProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return dtype; }
};

// Operand positions, as in the op's table of operands.
namespace quant_operand {
struct Quantize {
  enum { x, scale, zero_point, q };
};
struct QuantizeBackward {
  enum { dy, x, scale, zero_point, dx };
};
struct Dequantize {
  enum { q, scale, zero_point, x };
};
struct DequantizeBackward {
  enum { dy, scale, dq };
};
struct FakeQuantize {
  enum { x, scale, zero_point, y };
};
struct FakeQuantizeBackward {
  enum { dy, x, scale, zero_point, dx, dscale, dzero_point };
};
struct DynamicQuantize {
  enum { x, q, scale, zero_point };
};
}  // namespace quant_operand

// The 28 ops of the family, for the registry.
std::vector<OpEntry> quantize_ops();

}  // namespace planck
