#include "planck/ops/softmax/softmax.problem.h"

#include <fmt/format.h>

#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kForward[] = {{"x", Role::input}, {"y", Role::output}};
constexpr OperandInfo kBackward[] = {{"y", Role::input}, {"dy", Role::input}, {"dx", Role::output}};
constexpr OperandInfo kEntropy[] = {
    {"x", Role::input},
    {"targets", Role::input},
    {"loss", Role::output},
    {"lse", Role::output},
    {"bad_targets", Role::output, true, false, "targets are out of range"}};
constexpr OperandInfo kEntropyBackward[] = {{"x", Role::input},
                                            {"targets", Role::input},
                                            {"lse", Role::input},
                                            {"dloss", Role::input},
                                            {"dx", Role::output}};

constexpr AttributeInfo kAxis[] = {{"axis", "-1", "the axis that is summed over; -1: the last"}};
constexpr AttributeInfo kEntropyAttributes[] = {
    {"ignore_index", "-100", "a target that counts for nothing"},
    {"wide_loss", "false", "loss and dloss are f32 beside 16-bit logits"}};

constexpr OpCategory kCategory = OpCategory::softmax;

// In the order of SoftmaxKind.
constexpr OpInfo kInfos[] = {
    {"softmax", kCategory, "y = exp(x - max) * (1 / sum of exp(x - max))", kForward, kAxis},
    {"log_softmax", kCategory, "y = (x - max) - log(sum of exp(x - max))", kForward, kAxis},
    {"softmax_backward", kCategory, "dx = (dy - sum of dy * y) * y", kBackward, kAxis},
    {"log_softmax_backward", kCategory, "dx = dy - exp(y) * (sum of dy)", kBackward, kAxis},
    {"cross_entropy", kCategory, "loss = (max - x[target]) + log(sum of exp(x - max))", kEntropy,
     kEntropyAttributes, false},
    {"cross_entropy_backward", kCategory, "dx = dloss * (exp(x - lse) - (c == target))",
     kEntropyBackward, kEntropyAttributes},
};

}  // namespace

const OpInfo& SoftmaxProblem::info() const { return kInfos[static_cast<std::size_t>(kind)]; }

std::int64_t SoftmaxProblem::rows() const {
  std::int64_t n = 1;
  for (int d = 0; d < shape.rank(); ++d)
    if (d != axis) n *= shape[d];
  return n;
}

Result<void> SoftmaxProblem::check() const {
  const std::string_view op = info().name;
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", op, text));
  };
  if (!is_float(element_dtype))
    return invalid(fmt::format("x is {}, must be f32, f64, f16 or bf16", name(element_dtype)));
  if (auto ok = check_shape(shape, op); !ok) return ok;
  if (entropy() && shape.rank() != 2)
    return invalid(fmt::format("x has shape {}, must have 2 axes", to_string(shape)));
  if (axis < 0 || axis >= shape.rank())
    return invalid(fmt::format("axis is {}, x has {} of them", axis, shape.rank()));
  if (entropy() && axis != 1) return invalid(fmt::format("axis is {}, must be 1", axis));
  if (entropy() && target_dtype != Dtype::i32 && target_dtype != Dtype::i64)
    return invalid(fmt::format("targets are {}, must be i32 or i64", name(target_dtype)));
  return {};
}

std::array<OperandSpec, kSoftmaxOperands> SoftmaxProblem::specs() const {
  std::array<OperandSpec, kSoftmaxOperands> out;
  const OpInfo& op = info();
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const std::string_view operand = op.operands[i].name;
    OperandSpec& s = out[i];
    s.dtype = element_dtype;
    s.shape = shape;
    if (operand == "targets" || operand == "loss" || operand == "dloss" || operand == "lse")
      s.shape = {shape[0]};
    if (operand == "lse") s.dtype = compute_dtype(element_dtype);
    if (operand == "loss" || operand == "dloss") s.dtype = loss_dtype();
    if (operand == "targets") {
      s.dtype = target_dtype;
      s.other_dtype = target_dtype == Dtype::i32 ? Dtype::i64 : Dtype::i32;
    }
    if (operand == "bad_targets") {
      s.dtype = Dtype::i64;
      s.shape = {};
    }
  }
  return out;
}

namespace {

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs, SoftmaxKind kind) {
  const AttributeReader read(op, attributes);
  SoftmaxProblem p;
  p.kind = kind;
  const InputSpec& x = inputs.find(op.operands[0].name)->second;
  p.element_dtype = x.dtype;
  p.shape = x.shape;
  if (p.entropy()) {
    p.axis = 1;
    const auto ignore = read.integer("ignore_index");
    if (!ignore) return tl::unexpected(ignore.error());
    p.ignore_index = *ignore;
    const auto wide = read.boolean("wide_loss");
    if (!wide) return tl::unexpected(wide.error());
    p.wide_loss = *wide;
    p.target_dtype = inputs.find("targets")->second.dtype;
  } else {
    const auto axis = read.axis("axis", p.shape.rank());
    if (!axis) return tl::unexpected(axis.error());
    p.axis = *axis;
  }
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<SoftmaxProblem>(p));
}

}  // namespace

std::vector<OpEntry> softmax_ops() {
  return entries_of_kinds<&parse>(kInfos, [](SoftmaxKind) { return float_elements(); });
}

}  // namespace planck
