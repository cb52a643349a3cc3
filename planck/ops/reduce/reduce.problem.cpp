#include "planck/ops/reduce/reduce.problem.h"

#include <fmt/format.h>

#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kOperands[] = {{"x", Role::input}, {"out", Role::output}};
constexpr OperandInfo kExtremeScanOperands[] = {
    {"x", Role::input}, {"values", Role::output}, {"indices", Role::output}};

constexpr AttributeInfo kAxes = {"axes", "all", "the axes to reduce: 0,2 or -1, or all"};
constexpr AttributeInfo kReduceAttributes[] = {kAxes};
constexpr AttributeInfo kVarAttributes[] = {kAxes, {"correction", "1", "var divides by n - this"}};
constexpr AttributeInfo kAlong = {"axes", "0", "the axis to run along; -1: the last"};
constexpr AttributeInfo kScanAttributes[] = {kAlong, {"reverse", "false", "from the end"}};
constexpr AttributeInfo kExtremeScanAttributes[] = {kAlong};

constexpr OpCategory kCategory = OpCategory::reduction;

// In the order of ReduceKind.
constexpr OpInfo kInfos[] = {
    {"sum", kCategory, "out = sum of x over the axes", kOperands, kReduceAttributes, false},
    {"mean", kCategory, "out = sum of x / n", kOperands, kReduceAttributes, false},
    {"prod", kCategory, "out = product of x over the axes", kOperands, kReduceAttributes, false},
    {"max", kCategory, "out = the largest x, NaN where there is one", kOperands, kReduceAttributes,
     false},
    {"min", kCategory, "out = the smallest x, NaN where there is one", kOperands, kReduceAttributes,
     false},
    {"var", kCategory, "out = sum of (x - mean)^2 / (n - correction)", kOperands, kVarAttributes,
     false},
    {"logsumexp", kCategory, "out = max + log(sum of exp(x - max))", kOperands, kReduceAttributes,
     false},
    {"argmax", kCategory, "out = index of the first largest x", kOperands, kReduceAttributes,
     false},
    {"argmin", kCategory, "out = index of the first smallest x", kOperands, kReduceAttributes,
     false},
    {"any", kCategory, "out = whether an x is true", kOperands, kReduceAttributes, false},
    {"all", kCategory, "out = whether every x is true", kOperands, kReduceAttributes, false},
    {"cumsum", kCategory, "out[i] = x[0] + ... + x[i] along the axis", kOperands, kScanAttributes,
     false},
    {"cummax", kCategory,
     "values[i] = the largest of x[0] ... x[i], indices[i] = where it is first",
     kExtremeScanOperands, kExtremeScanAttributes, false},
    {"cummin", kCategory,
     "values[i] = the smallest of x[0] ... x[i], indices[i] = where it is first",
     kExtremeScanOperands, kExtremeScanAttributes, false},
};

bool takes_integers(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::mean:
    case ReduceKind::var:
    case ReduceKind::logsumexp:
    case ReduceKind::any:
    case ReduceKind::all:
      return false;
    default:
      return true;
  }
}

bool takes_booleans(ReduceKind kind) { return kind == ReduceKind::any || kind == ReduceKind::all; }

std::string axes_text(unsigned axes) {
  if (axes == kAllAxes) return "all";
  std::string text;
  for (int d = 0; d < 32; ++d)
    if ((axes >> d) & 1u) text += fmt::format("{}{}", text.empty() ? "" : ",", d);
  return text;
}

}  // namespace

const OpInfo& ReduceProblem::info() const { return kInfos[static_cast<std::size_t>(kind)]; }

std::int64_t ReduceProblem::reduced() const {
  std::int64_t n = 1;
  for (int d = 0; d < shape.rank(); ++d)
    if (reduces(d)) n *= shape[d];
  return n;
}

std::int64_t ReduceProblem::outputs() const {
  std::int64_t n = 1;
  for (int d = 0; d < shape.rank(); ++d)
    if (!reduces(d)) n *= shape[d];
  return n;
}

Shape ReduceProblem::out_shape() const {
  if (scans()) return shape;
  Shape s = shape;
  for (int d = 0; d < s.rank(); ++d)
    if (reduces(d)) s[d] = 1;
  return s;
}

Result<void> ReduceProblem::check() const {
  const std::string_view op = info().name;
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", op, text));
  };
  const bool integer = element_dtype == Dtype::i32 || element_dtype == Dtype::i64;
  const bool boolean = element_dtype == Dtype::boolean;
  if (takes_booleans(kind) ? !boolean
                           : !(is_float(element_dtype) || (integer && takes_integers(kind))))
    return invalid(fmt::format("x is {}, must be {}", name(element_dtype),
                               takes_booleans(kind)   ? "bool"
                               : takes_integers(kind) ? "f32, f64, f16, bf16, i32 or i64"
                                                      : "f32, f64, f16 or bf16"));
  if (auto ok = check_shape(shape, op); !ok) return ok;
  if (axes != kAllAxes && (axes >> shape.rank()) != 0)
    return invalid(fmt::format("axes are {}, x has {} of them", axes_text(axes), shape.rank()));
  int count = 0;
  for (int d = 0; d < shape.rank(); ++d) count += reduces(d);
  if (scans() && (count != 1 || axes == kAllAxes))
    return invalid(fmt::format("axes are {}, must be one axis", axes_text(axes)));
  if (finds() && count != 1 && count != shape.rank())
    return invalid(
        fmt::format("axes are {}, must be one axis or all {}", axes_text(axes), shape.rank()));
  const bool extreme = kind == ReduceKind::max || kind == ReduceKind::min || finds();
  if (extreme && reduced() == 0)
    return invalid(fmt::format("axes {} of shape {} hold no element, {} needs one at least",
                               axes_text(axes), to_string(shape), op));
  if (correction < 0) return invalid(fmt::format("correction is {}, must be >= 0", correction));
  return {};
}

Result<ReduceProblem> scan_problem(ReduceKind kind, const InputSpec& x, int axis, bool reverse) {
  ReduceProblem p{
      .kind = kind, .element_dtype = x.dtype, .shape = x.shape, .axes = 0, .reverse = reverse};
  if (axis < 0 || axis >= x.shape.rank())
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: axis is {}, x has {} axes", p.info().name, axis, x.shape.rank()));
  p.axes = 1u << axis;
  return p;
}

std::array<OperandSpec, kReduceOperands> ReduceProblem::specs() const {
  std::array<OperandSpec, kReduceOperands> out;
  out[0].dtype = element_dtype;
  out[0].shape = shape;
  out[1].dtype = out_dtype();
  out[1].shape = out_shape();
  out[2].dtype = Dtype::i64;
  out[2].shape = out_shape();
  out[2].used = scans_extremes();
  return out;
}

namespace {

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs, ReduceKind kind) {
  const AttributeReader read(op, attributes);
  ReduceProblem p;
  p.kind = kind;
  const InputSpec& x = inputs.find("x")->second;
  p.element_dtype = x.dtype;
  p.shape = x.shape;
  if (read.text("axes") != "all") {
    const auto axes = read.axes("axes", p.shape.rank());
    if (!axes) return tl::unexpected(axes.error());
    p.axes = *axes;
  }
  if (kind == ReduceKind::var) {
    const auto correction = read.integer("correction");
    if (!correction) return tl::unexpected(correction.error());
    p.correction = *correction;
  }
  if (kind == ReduceKind::cumsum) {
    const auto reverse = read.boolean("reverse");
    if (!reverse) return tl::unexpected(reverse.error());
    p.reverse = *reverse;
  }
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<ReduceProblem>(p));
}

std::vector<DtypePair> dtypes_of(ReduceKind kind) {
  if (takes_booleans(kind)) return {{Dtype::boolean, std::nullopt}};
  auto all = float_elements();
  if (takes_integers(kind))
    for (Dtype t : {Dtype::i32, Dtype::i64}) all.push_back({t, std::nullopt});
  return all;
}

}  // namespace

std::vector<OpEntry> reduce_ops() { return entries_of_kinds<&parse>(kInfos, dtypes_of); }

}  // namespace planck
