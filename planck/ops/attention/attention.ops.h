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
std::vector<double> alibi_slopes(std::int64_t heads, Dtype compute);  // of all heads
// Packed sequences as rows and keys of each, or all as one; and the options of one.
struct Sequence {
  std::int64_t first_query, end_query, first_key, end_key;
};
std::vector<Sequence> sequences_of(const ScaledDotProductOptions& options, std::int64_t queries,
                                   std::int64_t keys);
ScaledDotProductOptions of_one(ScaledDotProductOptions options);
// What products mean: as the options say, else as the device does. Attention has no exact products:
// on a device of these the dtype's own are meant, in the fused op and in one of simpler ops.
ProductMath math_of(const ScaledDotProductOptions& options, std::optional<ProductMath> device,
                    Dtype element);

}  // namespace attention_detail

}  // namespace planck
