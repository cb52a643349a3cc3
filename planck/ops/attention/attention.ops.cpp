#include "planck/ops/attention/attention.ops.h"

#include <cmath>

#include "planck/core/exception.h"
#include "planck/ops/attention/attention.math.h"

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

std::vector<double> attention_detail::alibi_slopes(std::int64_t heads, Dtype compute) {
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < heads; ++h)
    slopes.push_back(compute == Dtype::f64 ? attention_math::alibi_slope<double>(h, heads)
                                           : attention_math::alibi_slope<float>(h, heads));
  return slopes;
}

auto attention_detail::sequences_of(const ScaledDotProductOptions& options, std::int64_t queries,
                                    std::int64_t keys) -> std::vector<Sequence> {
  if (options.query_offsets.size() < 2) return {{0, queries, 0, keys}};
  std::vector<Sequence> all;
  for (std::size_t b = 1; b < options.query_offsets.size(); ++b)
    all.push_back({options.query_offsets[b - 1], options.query_offsets[b],
                   options.key_offsets[b - 1], options.key_offsets[b]});
  return all;
}
ScaledDotProductOptions attention_detail::of_one(ScaledDotProductOptions options) {
  options.query_offsets.clear();
  options.key_offsets.clear();
  return options;
}

double attention_detail::scale_of(const ScaledDotProductOptions& options, std::int64_t width) {
  return options.scale.value_or(1 / std::sqrt(static_cast<double>(width)));
}

}  // namespace planck
