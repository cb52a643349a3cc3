#include "planck/ops/attention/attention.ops.h"

#include <cmath>

#include "planck/core/exception.h"

namespace planck {

namespace {

Result<AttentionProblem> problem_of(AttentionKind kind, ScaledDotProductOptions options,
                                    std::optional<ProductMath> math, std::span<const InputSpec> in,
                                    bool masked) {
  options.math = attention_detail::math_of(options, math, in[0].dtype);
  return attention_problem(kind, options, in[0], in[1], in[2], masked ? &in[3] : nullptr);
}

}  // namespace

Result<AttentionProblem> Attention::problem(std::span<const InputSpec> in) const {
  return problem_of(AttentionKind::attention, options, math, in, in.size() > 3);
}
Result<AttentionProblem> AttentionBackward::problem(std::span<const InputSpec> in) const {
  return problem_of(AttentionKind::attention_backward, options, math, in, in.size() > 6);
}

bool attention_detail::checked_wide(const ScaledDotProductOptions& options, const InputSpec& q,
                                    const InputSpec& k, const InputSpec& v) {
  const AttentionProblem p =
      value_or_throw(attention_problem(AttentionKind::attention, options, q, k, v, nullptr, true));
  return p.width() > kMostHeadWidth || p.out_width() > kMostHeadWidth;
}

ProductMath attention_detail::math_of(const ScaledDotProductOptions& options,
                                      std::optional<ProductMath> device, Dtype element) {
  if (options.math) return *options.math;
  return device && *device != ProductMath::exact ? *device : default_product_math(element);
}

double attention_detail::scale_of(const ScaledDotProductOptions& options, std::int64_t width) {
  return options.scale.value_or(1 / std::sqrt(static_cast<double>(width)));
}

}  // namespace planck
