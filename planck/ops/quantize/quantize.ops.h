// Quantization as values; quantize.h says what each op computes. One QuantScheme serves all
// granularities.
#pragma once

#include "planck/ops/quantize/quantize.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

// How a tensor is cut into groups, and what its integers are.
struct QuantScheme {
  Granularity granularity = Granularity::per_tensor;
  int axis = 0;                        // per_channel
  std::int64_t group = 128;            // per_group: along the last axis
  Dtype dtype = Dtype::s8;             // s8, u8, s4 or u4
  std::optional<IntRange> range = {};  // the dtype's own unless set
  QuantMath math = QuantMath::divide;
  bool operator==(const QuantScheme& other) const {
    return granularity == other.granularity && axis == other.axis && group == other.group &&
           dtype == other.dtype && math == other.math && lowest() == other.lowest() &&
           highest() == other.highest();
  }
  std::int32_t lowest() const { return range ? range->lowest : int_range(dtype).lowest; }
  std::int32_t highest() const { return range ? range->highest : int_range(dtype).highest; }

  QuantProblem problem(QuantKind kind, Dtype element, const Shape& shape) const;
  // Shape of the scales and zero points of a tensor.
  Shape group_shape(const Shape& shape) const;
};

// x, scale, zero_point → q
struct Quantize {
  static constexpr std::string_view name = "quantize";
  using Gives = IntKind;
  QuantScheme scheme;
  Result<QuantProblem> problem(std::span<const InputSpec> in) const {
    return scheme.problem(QuantKind::quantize, in[0].dtype, in[0].shape);
  }
};
// q, scale, zero_point → x
struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  using Gives = FloatKind;
  QuantScheme scheme;
  Result<QuantProblem> problem(std::span<const InputSpec> in) const {
    return scheme.problem(QuantKind::dequantize, in[1].dtype, in[0].shape);
  }
};
// x, scale, zero_point → y
struct FakeQuantize {
  static constexpr std::string_view name = "fake_quantize";
  static constexpr bool memory_bound = true;
  QuantScheme scheme;
  Result<QuantProblem> problem(std::span<const InputSpec> in) const {
    return scheme.problem(QuantKind::fake_quantize, in[0].dtype, in[0].shape);
  }
};
// dy, x, scale, zero_point → dx, and dscale where Learned
template <bool Learned>
struct FakeQuantizeBackward {
  static constexpr std::string_view name = "fake_quantize_backward";
  using Gives = std::conditional_t<Learned, Kinds<FloatKind, FloatKind>, FloatKind>;
  QuantScheme scheme;
  Result<QuantProblem> problem(std::span<const InputSpec> in) const {
    QuantProblem p = scheme.problem(QuantKind::fake_quantize_backward, in[0].dtype, in[0].shape);
    p.learnable = Learned;
    return p;
  }
};
// x → q, scale, zero_point
struct DynamicQuantize {
  static constexpr std::string_view name = "dynamic_quantize";
  using Gives = Kinds<IntKind, FloatKind, IntKind>;
  QuantScheme scheme;
  bool symmetric = true;
  Result<QuantProblem> problem(std::span<const InputSpec> in) const {
    QuantProblem p = scheme.problem(QuantKind::dynamic_quantize, in[0].dtype, in[0].shape);
    p.symmetric = symmetric;
    return p;
  }
};

}  // namespace planck
