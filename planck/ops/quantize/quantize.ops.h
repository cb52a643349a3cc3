// Quantization as values; quantize.h says what each op computes.
#pragma once

#include "planck/ops/quantize/quantize.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

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
