#include "planck/ops/norm/norm.problem.h"

#include <fmt/format.h>

#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kForward[] = {{"x", Role::input},           {"weight", Role::input, true},
                                    {"bias", Role::input, true},  {"y", Role::output},
                                    {"mean", Role::output, true}, {"rstd", Role::output}};
constexpr OperandInfo kBackward[] = {{"x", Role::input},
                                     {"dy", Role::input},
                                     {"mean", Role::input, true},
                                     {"rstd", Role::input},
                                     {"weight", Role::input, true},
                                     {"dx", Role::output},
                                     {"dweight", Role::output, true},
                                     {"dbias", Role::output, true}};

constexpr AttributeInfo kForwardAttributes[] = {{"axes", "1", "how many trailing axes are a row"},
                                                {"eps", "1e-5", "added to the variance"}};
constexpr AttributeInfo kBackwardAttributes[] = {kForwardAttributes[0],
                                                 {"bias", "false", "whether dbias is asked for"}};

constexpr OpCategory kCategory = OpCategory::normalization;

// In the order of NormKind.
constexpr OpInfo kInfos[] = {
    {"layer_norm", kCategory, "y = ((x - mean) * rstd) * weight + bias", kForward,
     kForwardAttributes},
    {"rms_norm", kCategory, "y = (x * rstd) * weight, rstd of the mean square", kForward,
     kForwardAttributes},
    {"layer_norm_backward", kCategory,
     "dx = ((g - mean g) - xhat * mean(g * xhat)) * rstd, g = dy * weight", kBackward,
     kBackwardAttributes, false},
    {"rms_norm_backward", kCategory, "dx = (g - xhat * mean(g * xhat)) * rstd, g = dy * weight",
     kBackward, kBackwardAttributes, false},
};

}  // namespace

const OpInfo& NormProblem::info() const { return kInfos[static_cast<std::size_t>(kind)]; }

Shape NormProblem::row_shape() const {
  Shape s;
  for (int d = shape.rank() - axes; d < shape.rank(); ++d) s.push_back(shape[d]);
  return s;
}
Shape NormProblem::outer_shape() const {
  Shape s;
  for (int d = 0; d < shape.rank() - axes; ++d) s.push_back(shape[d]);
  return s;
}
std::int64_t NormProblem::length() const { return numel(row_shape()); }
std::int64_t NormProblem::rows() const { return numel(outer_shape()); }
unsigned NormProblem::along() const {
  unsigned mask = 0;
  for (int d = shape.rank() - axes; d < shape.rank(); ++d) mask |= 1u << d;
  return mask;
}

Result<void> NormProblem::check() const {
  const std::string_view op = info().name;
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", op, text));
  };
  if (!is_float(element_dtype))
    return invalid(fmt::format("x is {}, must be f32, f64, f16 or bf16", name(element_dtype)));
  if (auto ok = check_shape(shape, op); !ok) return ok;
  if (axes < 1 || axes > shape.rank())
    return invalid(fmt::format("axes is {}, x has {} of them", axes, shape.rank()));
  if (!(eps >= 0)) return invalid(fmt::format("eps is {}, must be >= 0", eps));
  if (biased && !centered()) return invalid("a bias is given, rms_norm has none");
  return {};
}

std::array<OperandSpec, kNormOperands> NormProblem::specs() const {
  std::array<OperandSpec, kNormOperands> out;
  const OpInfo& op = info();
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const std::string_view operand = op.operands[i].name;
    OperandSpec& s = out[i];
    s.dtype = element_dtype;
    s.shape = shape;
    if (operand == "mean" || operand == "rstd") {
      s.shape = outer_shape();
      s.dtype = compute_dtype(element_dtype);
    }
    if (operand == "mean") s.used = s.required = centered();
    if (operand == "weight" || operand == "dweight") {
      s.shape = row_shape();
      s.used = s.required = weighted;
    }
    if (operand == "bias" || operand == "dbias") {
      s.shape = row_shape();
      s.used = s.required = biased;
    }
  }
  return out;
}

namespace {

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs, NormKind kind) {
  const AttributeReader read(op, attributes);
  NormProblem p;
  p.kind = kind;
  const InputSpec& x = inputs.find("x")->second;
  p.element_dtype = x.dtype;
  p.shape = x.shape;
  const auto axes = read.integer("axes");
  if (!axes) return tl::unexpected(axes.error());
  p.axes = *axes < 0 || *axes > kMaxRank ? 0 : static_cast<int>(*axes);
  p.weighted = inputs.find("weight") != inputs.end();
  if (p.backward()) {
    const auto bias = read.boolean("bias");
    if (!bias) return tl::unexpected(bias.error());
    p.biased = *bias;
  } else {
    p.biased = inputs.find("bias") != inputs.end();
    const auto eps = read.number("eps");
    if (!eps) return tl::unexpected(eps.error());
    p.eps = *eps;
  }
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<NormProblem>(p));
}

}  // namespace

std::vector<OpEntry> norm_ops() {
  return entries_of_kinds<&parse>(kInfos, [](NormKind) { return float_elements(); });
}

}  // namespace planck
