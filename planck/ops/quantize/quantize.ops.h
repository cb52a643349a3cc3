// Quantization as values; quantize.h says what each op computes.
#pragma once

#include "planck/ops/quantize/quantize.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

// x, scale, zero_point → q
struct Quantize {
  static constexpr std::string_view name = "quantize";
  using Gives = CodeKind;
  QuantScheme scheme;
  QuantProblem problem(std::span<const InputSpec> in) const {
    return scheme.problem(QuantKind::quantize, in[0].dtype, in[0].shape);
  }
};
// dy (of q, as floats), x, scale, zero_point → dx
struct QuantizeBackward {
  static constexpr std::string_view name = "quantize_backward";
  QuantScheme scheme;
  QuantProblem problem(std::span<const InputSpec> in) const {
    return scheme.problem(QuantKind::quantize_backward, in[0].dtype, in[0].shape);
  }
};
// q, scale, zero_point → x
struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  using Gives = FloatKind;
  QuantScheme scheme;
  QuantProblem problem(std::span<const InputSpec> in) const {
    return scheme.problem(QuantKind::dequantize, in[1].dtype, in[0].shape);
  }
};
// dy, scale → dq, as floats
struct DequantizeBackward {
  static constexpr std::string_view name = "dequantize_backward";
  QuantScheme scheme;
  QuantProblem problem(std::span<const InputSpec> in) const {
    return scheme.problem(QuantKind::dequantize_backward, in[0].dtype, in[0].shape);
  }
};
// x, scale, zero_point → y
struct FakeQuantize {
  static constexpr std::string_view name = "fake_quantize";
  static constexpr bool memory_bound = true;
  QuantScheme scheme;
  QuantProblem problem(std::span<const InputSpec> in) const {
    return scheme.problem(QuantKind::fake_quantize, in[0].dtype, in[0].shape);
  }
};
// dy, x, scale, zero_point → dx, and dscale where Learned
template <bool Learned>
struct FakeQuantizeBackward {
  static constexpr std::string_view name = "fake_quantize_backward";
  using Gives = std::conditional_t<Learned, Kinds<FloatKind, FloatKind>, FloatKind>;
  QuantScheme scheme;
  QuantProblem problem(std::span<const InputSpec> in) const {
    QuantProblem p = scheme.problem(QuantKind::fake_quantize_backward, in[0].dtype, in[0].shape);
    p.learnable = Learned;
    return p;
  }
};
// x → q, scale, zero_point
struct DynamicQuantize {
  static constexpr std::string_view name = "dynamic_quantize";
  using Gives = Kinds<CodeKind, FloatKind, IntKind>;
  QuantScheme scheme;
  bool symmetric = true;
  QuantProblem problem(std::span<const InputSpec> in) const {
    QuantProblem p = scheme.problem(QuantKind::dynamic_quantize, in[0].dtype, in[0].shape);
    p.symmetric = symmetric;
    return p;
  }
};

}  // namespace planck
