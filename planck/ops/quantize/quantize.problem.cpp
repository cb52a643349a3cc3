#include "planck/ops/quantize/quantize.problem.h"

#include <fmt/format.h>

#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kQuantize[] = {
    {"x", Role::input}, {"scale", Role::input}, {"zero_point", Role::input}, {"q", Role::output}};
constexpr OperandInfo kQuantizeBackward[] = {{"dy", Role::input},
                                             {"x", Role::input},
                                             {"scale", Role::input},
                                             {"zero_point", Role::input},
                                             {"dx", Role::output}};
constexpr OperandInfo kDequantize[] = {
    {"q", Role::input}, {"scale", Role::input}, {"zero_point", Role::input}, {"x", Role::output}};
constexpr OperandInfo kDequantizeBackward[] = {
    {"dy", Role::input}, {"scale", Role::input}, {"dq", Role::output}};
constexpr OperandInfo kFakeQuantize[] = {
    {"x", Role::input}, {"scale", Role::input}, {"zero_point", Role::input}, {"y", Role::output}};
constexpr OperandInfo kFakeQuantizeBackward[] = {{"dy", Role::input},
                                                 {"x", Role::input},
                                                 {"scale", Role::input},
                                                 {"zero_point", Role::input},
                                                 {"dx", Role::output},
                                                 {"dscale", Role::output, true},
                                                 {"dzero_point", Role::output, true}};
constexpr OperandInfo kDynamicQuantize[] = {
    {"x", Role::input}, {"q", Role::output}, {"scale", Role::output}, {"zero_point", Role::output}};

constexpr AttributeInfo kDtype = {"dtype", "s8", "integer dtype of q: s8, u8, s4 or u4"};
constexpr AttributeInfo kQMin = {"q_min", "", "lowest integer; the dtype's lowest unless set"};
constexpr AttributeInfo kQMax = {"q_max", "", "highest integer; the dtype's highest unless set"};
constexpr AttributeInfo kMath = {"math", "divide",
                                 "divide: x / s, correctly rounded; reciprocal: x * (1 / s)"};
constexpr AttributeInfo kLearnable = {"learnable", "false",
                                      "true: also dscale and dzero_point, by the kernels below; "
                                      "false: by those of fake_quantize"};
constexpr AttributeInfo kSymmetric = {"symmetric", "true",
                                      "false: affine, with a zero point from the data"};
constexpr AttributeInfo kAxis = {"axis", "0", "the channel axis; -1: the last"};
constexpr AttributeInfo kGroup = {"group", "128", "elements of a group, along the last axis"};

struct KindRow {
  std::string_view prefix, suffix, formula;  // the op's name is prefix + granularity + suffix
  std::span<const OperandInfo> operands;
  std::vector<AttributeInfo> attributes;
};

// In the order of QuantKind.
const std::array<KindRow, 7>& kind_rows() {
  static const std::array<KindRow, 7> rows = {{
      {"quantize_",
       "",
       "q = clamp(rint(x / s) + z, q_min, q_max)",
       kQuantize,
       {kDtype, kQMin, kQMax, kMath}},
      {"quantize_",
       "_backward",
       "dx = dy / s where q_min <= rint(x / s) + z <= q_max, else 0",
       kQuantizeBackward,
       {kDtype, kQMin, kQMax, kMath}},
      {"dequantize_", "", "x = s * (q - z)", kDequantize, {kDtype}},
      {"dequantize_", "_backward", "dq = s * dy", kDequantizeBackward, {kDtype}},
      {"fake_quantize_",
       "",
       "y = s * (clamp(rint(x / s) + z, q_min, q_max) - z)",
       kFakeQuantize,
       {kDtype, kQMin, kQMax, kMath}},
      {"fake_quantize_",
       "_backward",
       "dx = dy in range, else 0; learnable: ds = sum dy * (in range ? (q - z) - x / s : q - z), "
       "dz = sum dy * (in range ? 0 : -s)",
       kFakeQuantizeBackward,
       {kDtype, kQMin, kQMax, kMath, kLearnable}},
      {"dynamic_quantize_",
       "",
       "s and z from the data, then q = clamp(rint(x / s) + z, q_min, q_max)",
       kDynamicQuantize,
       {kDtype, kQMin, kQMax, kSymmetric}},
  }};
  return rows;
}

constexpr std::string_view kGranularityNames[] = {"per_tensor", "per_channel", "per_token",
                                                  "per_group"};

struct NamedInfo {
  std::string name;
  std::vector<AttributeInfo> attributes;
  OpInfo info;
};

// 7 kinds × 4 granularities.
const NamedInfo& named_info(QuantKind kind, Granularity granularity) {
  static const auto& table = *[] {
    auto* all = new std::array<std::array<NamedInfo, 4>, 7>;
    for (std::size_t k = 0; k < 7; ++k)
      for (std::size_t g = 0; g < 4; ++g) {
        const KindRow& row = kind_rows()[k];
        NamedInfo& n = (*all)[k][g];
        n.name = fmt::format("{}{}{}", row.prefix, kGranularityNames[g], row.suffix);
        n.attributes = row.attributes;
        if (static_cast<Granularity>(g) == Granularity::per_channel) n.attributes.push_back(kAxis);
        if (static_cast<Granularity>(g) == Granularity::per_group) n.attributes.push_back(kGroup);
        n.info = {n.name, OpCategory::quantize, row.formula, row.operands, n.attributes};
      }
    return all;
  }();
  return table[static_cast<std::size_t>(kind)][static_cast<std::size_t>(granularity)];
}

}  // namespace

QuantProblem QuantScheme::problem(QuantKind kind, Dtype element, const Shape& shape) const {
  QuantProblem p{*this, kind, element, shape};
  if (axis < 0) p.axis += shape.rank();
  return p;
}

Shape QuantScheme::group_shape(const Shape& shape) const {
  return problem(QuantKind::quantize, Dtype::f32, shape).group_shape();
}

QuantProblem::Map QuantProblem::map() const {
  const std::int64_t count = numel(shape);
  switch (granularity) {
    case Granularity::per_tensor:
      return {1, 1, count};
    case Granularity::per_channel: {
      std::int64_t inner = 1, outer = 1;
      for (int d = 0; d < axis; ++d) outer *= shape[d];
      for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
      return {outer, shape[axis], inner};
    }
    case Granularity::per_token:
    case Granularity::per_group:
      break;
  }
  const std::int64_t channels = numel(group_shape());
  return {1, channels, channels == 0 ? 0 : count / channels};
}

Shape QuantProblem::group_shape() const {
  Shape groups;
  if (granularity == Granularity::per_channel) groups.push_back(shape[axis]);
  if (granularity == Granularity::per_token || granularity == Granularity::per_group)
    for (int d = 0; d + 1 < shape.rank(); ++d) groups.push_back(shape[d]);
  if (granularity == Granularity::per_group) groups.push_back(shape[shape.rank() - 1] / group);
  return groups;
}

QuantProblem::Axes QuantProblem::axes() const {
  Axes a;
  for (std::int64_t e : shape) a.extent[static_cast<std::size_t>(a.rank++)] = e;
  if (granularity == Granularity::per_group) {
    a.extent[static_cast<std::size_t>(a.rank - 1)] /= group;
    a.extent[static_cast<std::size_t>(a.rank++)] = group;
  }
  return a;
}

std::array<std::int64_t, kMaxRank + 1> QuantProblem::element_strides(const View& v) const {
  std::array<std::int64_t, kMaxRank + 1> s{};
  int rank = 0;
  for (std::int64_t step : v.strides) s[static_cast<std::size_t>(rank++)] = step;
  if (granularity == Granularity::per_group) {
    s[static_cast<std::size_t>(rank)] = s[static_cast<std::size_t>(rank - 1)];
    s[static_cast<std::size_t>(rank - 1)] *= group;
  }
  return s;
}

std::array<std::int64_t, kMaxRank + 1> QuantProblem::group_strides(const View& v) const {
  std::array<std::int64_t, kMaxRank + 1> s{};
  const Strides steps =
      reshaped_strides(v, group_shape()).value_or(Strides{});  // check_operands has seen to it
  if (granularity == Granularity::per_channel)
    s[static_cast<std::size_t>(axis)] = steps[0];
  else
    for (int d = 0; d < steps.rank(); ++d) s[static_cast<std::size_t>(d)] = steps[d];
  return s;
}

const OpInfo& QuantProblem::info() const { return named_info(kind, granularity).info; }

Result<void> QuantProblem::check() const {
  const std::string_view op = info().name;
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", op, text));
  };
  if (auto ok = check_shape(shape, op); !ok) return ok;
  if (!is_float(element_dtype))
    return invalid(
        fmt::format("element dtype is {}, must be f32, f64, f16 or bf16", name(element_dtype)));
  if (!is_quantized(dtype))
    return invalid(fmt::format("dtype is {}, must be s8, u8, s4 or u4", name(dtype)));
  const IntRange held = int_range(dtype);
  const std::int32_t q_min = lowest(), q_max = highest();
  if (q_min > q_max) return invalid(fmt::format("q_min is {}, above q_max {}", q_min, q_max));
  if (q_min < held.lowest || q_max > held.highest)
    return invalid(fmt::format("[q_min, q_max] is [{}, {}], {} holds [{}, {}]", q_min, q_max,
                               name(dtype), held.lowest, held.highest));
  if (kind == QuantKind::dynamic_quantize && q_min == q_max)
    return invalid(
        fmt::format("q_min and q_max are both {}, a scale needs two values at least", q_min));
  const bool holds_q = kind == QuantKind::quantize || kind == QuantKind::dequantize ||
                       kind == QuantKind::dynamic_quantize;
  if (holds_q && is_packed(dtype) && (shape.rank() == 0 || shape[shape.rank() - 1] % 2 != 0))
    return invalid(fmt::format("{} is packed in pairs, the last extent of shape {} must be even",
                               name(dtype), to_string(shape)));
  if (granularity == Granularity::per_channel && (axis < 0 || axis >= shape.rank()))
    return invalid(
        fmt::format("axis is {}, the shape {} has {} axes", axis, to_string(shape), shape.rank()));
  if (granularity == Granularity::per_token && shape.rank() == 0)
    return invalid("a scalar has no tokens: the shape needs one axis at least");
  if (granularity == Granularity::per_group) {
    if (shape.rank() == 0)
      return invalid("a scalar has no groups: the shape needs one axis at least");
    if (group < 1) return invalid(fmt::format("group is {}, must be at least 1", group));
    if (shape[shape.rank() - 1] % group != 0)
      return invalid(fmt::format("group is {}, it does not divide the last extent of shape {}",
                                 group, to_string(shape)));
  }
  return {};
}

std::array<OperandSpec, kQuantOperands> QuantProblem::specs() const {
  std::string rule;
  switch (granularity) {
    case Granularity::per_tensor:
      rule = "a tensor has 1";
      break;
    case Granularity::per_channel:
      rule = fmt::format("shape[axis={}] is {}", axis, shape[axis]);
      break;
    case Granularity::per_token:
      rule = fmt::format("shape {} has {} tokens", to_string(shape), numel(group_shape()));
      break;
    case Granularity::per_group:
      rule = fmt::format("shape {} has {} groups of {}", to_string(shape), numel(group_shape()),
                         group);
      break;
  }
  std::array<OperandSpec, kQuantOperands> out;
  const OpInfo& op = info();
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const std::string_view operand = op.operands[i].name;
    OperandSpec& s = out[i];
    s.dtype = operand == "q" ? dtype : operand == "zero_point" ? Dtype::i32 : element_dtype;
    s.count_only = operand == "scale" || operand == "zero_point" || operand == "dscale" ||
                   operand == "dzero_point";
    s.shape = s.count_only ? group_shape() : shape;
    if (s.count_only) s.count_rule = rule;
    s.used = learnable || (operand != "dscale" && operand != "dzero_point");
  }
  return out;
}

namespace {

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs, QuantKind kind,
                                          Granularity granularity) {
  const AttributeReader read(op, attributes);
  QuantProblem p;
  p.kind = kind;
  p.granularity = granularity;
  const bool from_q = kind == QuantKind::dequantize;
  const InputSpec& main = inputs.find(op.operands[0].name)->second;
  p.shape = main.shape;
  p.element_dtype = from_q ? inputs.find("scale")->second.dtype : main.dtype;

  auto dtype = read.dtype("dtype");
  if (!dtype) return tl::unexpected(dtype.error());
  p.dtype = from_q && attributes.find("dtype") == attributes.end() ? main.dtype : *dtype;
  IntRange& range = p.range.emplace(int_range(p.dtype));

  // Reads an integer attribute if the op has it and it is set or has a default.
  const auto integer = [&](std::string_view attribute, auto& target) -> Result<void> {
    if (read.text(attribute).empty()) return {};
    return read.integer(attribute).and_then([&](std::int64_t v) -> Result<void> {
      target = static_cast<std::remove_reference_t<decltype(target)>>(v);
      if (static_cast<std::int64_t>(target) != v)
        return fail(ErrorCode::invalid_problem,
                    fmt::format("{}: {}={} is out of range", op.name, attribute, v));
      return {};
    });
  };
  for (Result<void> r :
       {integer("q_min", range.lowest), integer("q_max", range.highest), integer("group", p.group)})
    if (!r) return tl::unexpected(r.error());
  if (granularity == Granularity::per_channel) {
    const auto axis = read.axis("axis", p.shape.rank());
    if (!axis) return tl::unexpected(axis.error());
    p.axis = *axis;
  }

  if (const std::string math = read.text("math"); math == "reciprocal")
    p.math = QuantMath::reciprocal;
  else if (!math.empty() && math != "divide")
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: math={} is not divide or reciprocal", op.name, math));
  if (kind == QuantKind::fake_quantize_backward) {
    auto learnable = read.boolean("learnable");
    if (!learnable) return tl::unexpected(learnable.error());
    p.learnable = *learnable;
  }
  if (kind == QuantKind::dynamic_quantize) {
    auto symmetric = read.boolean("symmetric");
    if (!symmetric) return tl::unexpected(symmetric.error());
    p.symmetric = *symmetric;
  }
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<QuantProblem>(p));
}

// The registry holds plain function pointers: one per pair.
template <std::size_t kPair>
Result<std::unique_ptr<AnyProblem>> parse_pair(const OpInfo& op, const Attributes& a,
                                               const InputSpecs& i) {
  return parse(op, a, i, static_cast<QuantKind>(kPair / 4), static_cast<Granularity>(kPair % 4));
}

}  // namespace

std::vector<OpEntry> quantize_ops() {
  std::vector<DtypePair> dtypes;
  for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16})
    for (Dtype q : {Dtype::s8, Dtype::u8, Dtype::s4, Dtype::u4}) dtypes.push_back({t, q});
  std::vector<OpEntry> entries;
  [&]<std::size_t... kPairs>(std::index_sequence<kPairs...>) {
    (entries.push_back(
         {&named_info(static_cast<QuantKind>(kPairs / 4), static_cast<Granularity>(kPairs % 4))
               .info,
          dtypes, &parse_pair<kPairs>}),
     ...);
  }
  (std::make_index_sequence<28>());
  return entries;
}

}  // namespace planck
