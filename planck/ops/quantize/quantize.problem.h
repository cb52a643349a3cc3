// The quantize family as one plain value: op, granularity, dtypes, range. quantize.h says what the
// ops compute.
//
// All granularities are one index map. View a row-major tensor as [outer, channels, inner]: the
// group of element i is (i / inner) % channels. The same map as strides: scale and zero_point are
// read as operands of the tensor's shape (for per_group with the last axis split in two) whose
// strides are 0 along every axis that a group spans.
#pragma once

#include <array>

#include "planck/ops/quantize/quantize.scheme.h"
#include "planck/plan/plan.h"

namespace planck {

inline constexpr int kQuantOperands = 7;  // the most operands an op of the family has

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
