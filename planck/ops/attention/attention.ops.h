// Attention as a value; attention.h says what it computes.
#pragma once

#include "planck/ops/attention/attention.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

// q, k, v, then a mask where there is one → y, lse
struct Attention {
  static constexpr std::string_view name = "attention";
  using Gives = Kinds<FloatKind, FloatKind>;
  ScaledDotProductOptions options;
  std::optional<ProductMath> math = {};  // the device's, where the options leave it open

  Result<AttentionProblem> problem(std::span<const InputSpec> in) const;
};

// q, k, v, the mask, y, lse, dy → dq, dk, dv
struct AttentionBackward {
  static constexpr std::string_view name = "attention_backward";
  using Gives = Kinds<FloatKind, FloatKind, FloatKind>;
  ScaledDotProductOptions options;
  std::optional<ProductMath> math = {};

  Result<AttentionProblem> problem(std::span<const InputSpec> in) const;
};

namespace attention_detail {

// Refuses what does not fit together; true where heads are wider than the kernels'.
bool checked_wide(const ScaledDotProductOptions& options, const InputSpec& q, const InputSpec& k,
                  const InputSpec& v);
double scale_of(const ScaledDotProductOptions& options, std::int64_t width);
// What products mean: as the options say, else as the device does. Attention has no exact products:
// on a device of these the dtype's own are meant, in the fused op and in one of simpler ops.
ProductMath math_of(const ScaledDotProductOptions& options, std::optional<ProductMath> device,
                    Dtype element);

}  // namespace attention_detail

}  // namespace planck
