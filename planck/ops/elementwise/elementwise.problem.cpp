#include "planck/ops/elementwise/elementwise.problem.h"

#include <fmt/format.h>

#include <cstdlib>

namespace planck {

namespace {

using Op = ElementwiseOp;

std::size_t at(Op op) { return static_cast<std::size_t>(op); }

// ---- the table of ops ----

constexpr OperandInfo kUnary[] = {{"x", Role::input}, {"y", Role::output}};
constexpr OperandInfo kBinary[] = {{"a", Role::input}, {"b", Role::input}, {"y", Role::output}};
constexpr OperandInfo kWhere[] = {
    {"condition", Role::input}, {"a", Role::input}, {"b", Role::input}, {"y", Role::output}};
constexpr OperandInfo kMaskFill[] = {
    {"x", Role::input}, {"mask", Role::input}, {"y", Role::output}};
constexpr OperandInfo kOutput[] = {{"y", Role::output}};

constexpr AttributeInfo kSlope[] = {{"slope", "0.01", "factor of negative values"}};
constexpr AttributeInfo kBounds[] = {{"min", "-inf", "lower bound"}, {"max", "inf", "upper bound"}};
constexpr AttributeInfo kValue[] = {{"value", "1", "the scalar"}};
constexpr AttributeInfo kTo[] = {{"dtype", "f32", "of the result"}};
#define PLANCK_PLACE \
  {"shape", "1", "extents of the result, as 4x5"}, { "dtype", "f32", "of the result" }
#define PLANCK_SEED \
  {"seed", "0", "key of the generator"}, { "offset", "0", "which of the seed's streams" }
constexpr AttributeInfo kFill[] = {{"value", "0", "of every element"}, PLANCK_PLACE};
constexpr AttributeInfo kArange[] = {
    {"start", "0", "the first"}, {"step", "1", "from one to the next"}, PLANCK_PLACE};
constexpr AttributeInfo kUniform[] = {
    {"low", "0", "lower end"}, {"high", "1", "upper end"}, PLANCK_PLACE, PLANCK_SEED};
constexpr AttributeInfo kNormal[] = {
    {"mean", "0", "mean"}, {"std", "1", "standard deviation"}, PLANCK_PLACE, PLANCK_SEED};
constexpr AttributeInfo kBernoulli[] = {
    {"p", "0.5", "probability of 1"}, PLANCK_PLACE, PLANCK_SEED};

// Which dtypes an op reads.
enum Kinds : std::uint8_t { floats = 1, integers = 2, booleans = 4, bytes = 8 };
constexpr std::uint8_t kNumbers = floats | integers, kAny = floats | integers | booleans | bytes;

struct Row {
  OpInfo info;
  std::uint8_t kinds;
  int scalars = 0;
  double max_ulp = 0;
};

constexpr Row row(std::string_view name, std::string_view formula,
                  std::span<const OperandInfo> operands, std::uint8_t kinds, double max_ulp = 0,
                  std::span<const AttributeInfo> attributes = {}, int scalars = 0) {
  return {{name, OpCategory::elementwise, formula, operands, attributes}, kinds, scalars, max_ulp};
}

// In the order of ElementwiseOp.
constexpr Row kRows[] = {
    row("neg", "y = -x", kUnary, kNumbers),
    row("abs", "y = |x|", kUnary, kNumbers),
    row("sign", "y = 1, 0 or -1; NaN stays", kUnary, kNumbers),
    row("square", "y = x * x", kUnary, kNumbers),
    row("sqrt", "y = sqrt(x)", kUnary, floats),
    row("rsqrt", "y = 1 / sqrt(x)", kUnary, floats, 1.5),
    row("reciprocal", "y = 1 / x", kUnary, floats),
    row("exp", "y = e^x", kUnary, floats, 1.1),
    row("expm1", "y = e^x - 1", kUnary, floats, 1.8),
    row("log", "y = log(x)", kUnary, floats, 1.0),
    row("log1p", "y = log(1 + x)", kUnary, floats, 1.6),
    row("sin", "y = sin(x)", kUnary, floats, 1.6),
    row("cos", "y = cos(x)", kUnary, floats, 1.6),
    row("tanh", "y = tanh(x)", kUnary, floats, 1.5),
    row("sigmoid", "y = 1 / (1 + e^-x)", kUnary, floats, 2.5),
    row("relu", "y = max(x, 0)", kUnary, kNumbers),
    row("leaky_relu", "y = x > 0 ? x : slope * x", kUnary, floats, 0, kSlope, 1),
    row("gelu", "y = x * (1 + erf(x / sqrt(2))) / 2", kUnary, floats, 5),
    row("silu", "y = x / (1 + e^-x)", kUnary, floats, 3.5),
    row("softplus", "y = log(1 + e^x)", kUnary, floats, 1.9),
    row("erf", "y = erf(x)", kUnary, floats, 1.3),
    row("floor", "y = the largest integer <= x", kUnary, floats),
    row("ceil", "y = the smallest integer >= x", kUnary, floats),
    row("round", "y = the nearest integer, ties to even", kUnary, floats),
    row("trunc", "y = x without its fraction", kUnary, floats),
    row("clamp", "y = min(max(x, min), max)", kUnary, kNumbers, 0, kBounds, 2),
    row("add_scalar", "y = x + value", kUnary, kNumbers, 0, kValue, 1),
    row("mul_scalar", "y = x * value", kUnary, kNumbers, 0, kValue, 1),
    row("pow_scalar", "y = x^value", kUnary, floats, 1.3, kValue, 1),
    row("add", "y = a + b", kBinary, kNumbers),
    row("sub", "y = a - b", kBinary, kNumbers),
    row("mul", "y = a * b", kBinary, kNumbers),
    row("div", "y = a / b; integers truncate, a / 0 = 0", kBinary, kNumbers),
    row("maximum", "y = max(a, b); NaN wins", kBinary, kNumbers),
    row("minimum", "y = min(a, b); NaN wins", kBinary, kNumbers),
    row("pow", "y = a^b", kBinary, floats, 1.3),
    row("atan2", "y = the angle of the point (b, a)", kBinary, floats, 2.4),
    row("eq", "y = a == b", kBinary, kNumbers),
    row("ne", "y = a != b", kBinary, kNumbers),
    row("lt", "y = a < b", kBinary, kNumbers),
    row("le", "y = a <= b", kBinary, kNumbers),
    row("gt", "y = a > b", kBinary, kNumbers),
    row("ge", "y = a >= b", kBinary, kNumbers),
    row("logical_and", "y = a and b", kBinary, booleans),
    row("logical_or", "y = a or b", kBinary, booleans),
    row("logical_xor", "y = a xor b", kBinary, booleans),
    row("logical_not", "y = not x", kUnary, booleans),
    row("where", "y = condition ? a : b", kWhere, kAny),
    row("mask_fill", "y = mask ? value : x", kMaskFill, kAny, 0, kValue, 1),
    row("cast", "y = x as another dtype", kUnary, kAny, 0, kTo),
    row("copy", "y = x, bit for bit", kUnary, kAny),
    row("fill", "y = value", kOutput, kAny, 0, kFill, 1),
    row("arange", "y[i] = start + i * step", kOutput, kNumbers, 0, kArange, 2),
    row("random_uniform", "y[i] = low + u[i] * (high - low), u in [0, 1)", kOutput, floats, 0,
        kUniform, 2),
    row("random_normal", "y[i] = mean + z[i] * std", kOutput, floats, 0, kNormal, 2),
    row("random_bernoulli", "y[i] = u[i] < p", kOutput, floats | booleans, 0, kBernoulli, 1),
};
static_assert(std::size(kRows) == kElementwiseOps);

std::uint8_t kind_of(Dtype t) {
  if (is_float(t)) return floats;
  if (t == Dtype::i32 || t == Dtype::i64) return integers;
  if (t == Dtype::boolean) return booleans;
  return t == Dtype::s8 || t == Dtype::u8 ? bytes : 0;
}

bool is_comparison(Op op) { return op >= Op::eq && op <= Op::ge; }

}  // namespace

double elementwise_max_ulp(Op op) { return kRows[at(op)].max_ulp; }
bool elementwise_accepts(Op op, Dtype dtype) { return (kRows[at(op)].kinds & kind_of(dtype)) != 0; }

const OpInfo& ElementwiseProblem::info() const { return kRows[at(op)].info; }

Dtype ElementwiseProblem::output_dtype() const {
  return is_comparison(op) ? Dtype::boolean : op == Op::cast ? to : dtype;
}

Result<void> ElementwiseProblem::check() const {
  if (auto ok = check_shape(shape, info().name); !ok) return ok;
  for (Dtype t : {dtype, output_dtype()}) {
    if (elementwise_accepts(op, t) || (is_comparison(op) && t == Dtype::boolean)) continue;
    std::string known;
    for (Dtype k : kAllDtypes)
      if (elementwise_accepts(op, k))
        known += fmt::format("{}{}", known.empty() ? "" : ", ", name(k));
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: dtype is {}, must be one of {}", info().name, name(t), known));
  }
  return {};
}

std::array<OperandSpec, kElementwiseOperands> ElementwiseProblem::specs() const {
  std::array<OperandSpec, kElementwiseOperands> out;
  const std::span<const OperandInfo> operands = info().operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    out[i].shape = shape;
    out[i].dtype = operands[i].role == Role::output ? output_dtype() : dtype;
  }
  if (op == Op::where) out[0].dtype = Dtype::boolean;
  if (op == Op::mask_fill) out[1].dtype = Dtype::boolean;
  return out;
}

namespace {

Error invalid(const OpInfo& op, std::string text) {
  return {ErrorCode::invalid_problem, fmt::format("{}: {}", op.name, text)};
}

Result<Shape> parse_shape(const OpInfo& op, const std::string& text) {
  Shape shape;
  const char* p = text.c_str();
  while (*p != 0) {
    char* end = nullptr;
    const long long extent = std::strtoll(p, &end, 10);
    if (end == p || extent < 0 || (*end != 0 && *end != 'x') || shape.rank() == kMaxRank)
      return tl::unexpected(
          invalid(op, fmt::format("shape={} is not up to {} extents as 4x5", text, kMaxRank)));
    shape.push_back(extent);
    p = *end == 'x' ? end + 1 : end;
  }
  return shape;
}

Result<Scalar> parse_scalar(const OpInfo& op, std::string_view attribute, const std::string& text,
                            Dtype dtype) {
  char* end = nullptr;
  if (!is_float(dtype)) {
    const long long whole = std::strtoll(text.c_str(), &end, 10);
    if (*end == 0 && !text.empty()) return Scalar(std::int64_t{whole});
  }
  const double number = std::strtod(text.c_str(), &end);
  if (*end != 0 || text.empty())
    return tl::unexpected(invalid(op, fmt::format("{}={} is not a number", attribute, text)));
  return Scalar(number);
}

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& info, const Attributes& attributes,
                                          const InputSpecs& inputs) {
  const AttributeReader read(info, attributes);
  ElementwiseProblem p;
  for (std::size_t i = 0; i < std::size(kRows); ++i)
    if (&kRows[i].info == &info) p.op = static_cast<Op>(i);
  const bool writes_only = info.operands.size() == 1;
  if (writes_only || p.op == Op::cast) {
    auto dtype = read.dtype("dtype");
    if (!dtype) return tl::unexpected(dtype.error());
    p.dtype = p.to = *dtype;
  }
  if (writes_only) {
    auto shape = parse_shape(info, read.text("shape"));
    if (!shape) return tl::unexpected(shape.error());
    p.shape = *shape;
  } else {
    const std::string_view main = info.operands[p.op == Op::where ? 1 : 0].name;
    p.shape = inputs.find(main)->second.shape;
    p.dtype = inputs.find(main)->second.dtype;
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(kRows[at(p.op)].scalars); ++k) {
    const std::string_view attribute = info.attributes[k].name;
    auto scalar = parse_scalar(info, attribute, read.text(attribute), p.dtype);
    if (!scalar) return tl::unexpected(scalar.error());
    p.scalars[k] = *scalar;
  }
  if (p.op >= Op::random_uniform) {
    const auto seed = read.integer("seed"), offset = read.integer("offset");
    if (!seed) return tl::unexpected(seed.error());
    if (!offset) return tl::unexpected(offset.error());
    p.seed = static_cast<std::uint64_t>(*seed);
    p.offset = static_cast<std::uint64_t>(*offset);
  }
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<ElementwiseProblem>(p));
}

}  // namespace

std::vector<OpEntry> elementwise_ops() {
  std::vector<OpEntry> entries;
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    std::vector<DtypePair> dtypes;
    const auto op = static_cast<Op>(i);
    for (Dtype t : kAllDtypes) {
      if (!elementwise_accepts(op, t)) continue;
      if (op != Op::cast)
        dtypes.push_back({t, std::nullopt});
      else
        for (Dtype to : kAllDtypes)
          if (elementwise_accepts(op, to)) dtypes.push_back({t, to});
    }
    entries.push_back({&kRows[i].info, std::move(dtypes), &parse});
  }
  return entries;
}

}  // namespace planck
