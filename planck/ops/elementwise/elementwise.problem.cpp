#include "planck/ops/elementwise/elementwise.problem.h"

#include <fmt/format.h>

#include "planck/plan/broadcast.h"
#include "planck/plan/registry.h"

namespace planck {

namespace {

using Op = ElementwiseOp;

std::size_t at(Op op) { return static_cast<std::size_t>(op); }

// ---- operands and attributes that the table of ops names ----

constexpr OperandInfo kUnary[] = {{"x", Role::input}, {"y", Role::output}};
constexpr OperandInfo kBinary[] = {{"a", Role::input}, {"b", Role::input}, {"y", Role::output}};
constexpr OperandInfo kWhere[] = {
    {"condition", Role::input}, {"a", Role::input}, {"b", Role::input}, {"y", Role::output}};
constexpr OperandInfo kMaskFill[] = {
    {"x", Role::input}, {"mask", Role::input}, {"y", Role::output}};
constexpr OperandInfo kOutput[] = {{"y", Role::output}};

constexpr std::span<const AttributeInfo> kNone;
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

struct Row {
  OpInfo info;
  double max_ulp;
};
constexpr Row kRows[] = {
#define PLANCK_ELEMENTWISE_OP(name, Type, dtypes, ulp, formula, attributes, operands)              \
  {{#name, OpCategory::elementwise, formula, operands, attributes, true, std::size(operands) > 2}, \
   ulp},
#include "planck/ops/elementwise/elementwise.table.h"
};
static_assert(std::size(kRows) == kElementwiseOps);

// Scalars come before the shape, the dtype and the seed.
bool is_scalar(const AttributeInfo& a) { return a.name != "shape" && a.name != "dtype"; }

std::uint8_t kind_of(Dtype t) {
  using namespace elementwise_dtypes;
  if (is_float(t)) return floats;
  if (t == Dtype::i32 || t == Dtype::i64) return integers;
  if (t == Dtype::boolean) return booleans;
  return t == Dtype::s8 || t == Dtype::u8 ? bytes : 0;
}

bool is_comparison(Op op) { return op >= Op::eq && op <= Op::ge; }

// Scalars that are an operand: rounded to the compute type, or an integer of the dtype.
bool computes_with_scalars(Op op) {
  return op == Op::leaky_relu || (op >= Op::add_scalar && op <= Op::pow_scalar);
}
// A bound beyond the ends bounds nothing, infinity among them.
bool holds_bound(Dtype t, const Scalar& s) {
  return is_float(t) || s.is_whole() || s.number >= 0x1p63 || s.number < -0x1p63;
}
// Whether the problem's scalars keep their value. Parameters of random numbers are numbers in any
// dtype, and so are the ends of float ranges, which are counted in f64.
Result<void> check_scalars(const ElementwiseProblem& p) {
  const bool whole = p.op == Op::arange && !is_float(p.dtype);
  const bool stores = p.op == Op::fill || p.op == Op::mask_fill || whole;
  if (!stores && p.op != Op::clamp && !computes_with_scalars(p.op)) return {};
  const Dtype as = stores ? p.dtype : scalar_dtype(p.dtype);
  for (const Scalar& s : p.scalars)
    if (p.op != Op::clamp || !holds_bound(p.dtype, s))
      if (auto ok = check_scalar(p.info().name, as, s); !ok) return ok;
  return {};
}

}  // namespace

double elementwise_max_ulp(Op op) { return kRows[at(op)].max_ulp; }
bool elementwise_accepts(Op op, Dtype dtype) { return (dtypes_of(op) & kind_of(dtype)) != 0; }

const OpInfo& ElementwiseProblem::info() const { return kRows[at(op)].info; }

Dtype ElementwiseProblem::output_dtype() const {
  return is_comparison(op) ? Dtype::boolean : op == Op::cast ? to : dtype;
}

Result<void> ElementwiseProblem::check() const {
  if (auto ok = check_shape(shape, info().name); !ok) return ok;
  for (Dtype t : {dtype, is_comparison(op) ? dtype : output_dtype()}) {
    if (elementwise_accepts(op, t)) continue;
    std::string known;
    for (Dtype k : kAllDtypes)
      if (elementwise_accepts(op, k))
        known += fmt::format("{}{}", known.empty() ? "" : ", ", name(k));
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: dtype is {}, must be one of {}", info().name, name(t), known));
  }
  return check_scalars(*this);
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

// A whole number stays exact where the elements are integers.
Result<Scalar> read_scalar(const AttributeReader& read, std::string_view attribute, Dtype dtype) {
  if (!is_float(dtype))
    if (const auto whole = parse_whole(read.text(attribute))) return Scalar(*whole);
  return read.number(attribute).map([](double number) { return Scalar(number); });
}

// The shape all inputs broadcast to.
Result<Shape> common_shape(const OpInfo& info, const InputSpecs& inputs) {
  std::optional<Shape> shape;
  for (const OperandInfo& operand : info.operands) {
    if (operand.role != Role::input) continue;
    const Shape& next = inputs.find(operand.name)->second.shape;
    const auto both = shape ? broadcast_shape(info.name, *shape, next) : next;
    if (!both) return both;
    shape = *both;
  }
  return *shape;
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
    const auto shape = read.list("shape", "up to 8 extents as 4x5 or 4,5");
    if (!shape) return tl::unexpected(shape.error());
    p.shape = *shape;
  } else {
    const std::string_view main = info.operands[p.op == Op::where ? 1 : 0].name;
    p.dtype = inputs.find(main)->second.dtype;
    const auto shape = common_shape(info, inputs);
    if (!shape) return tl::unexpected(shape.error());
    p.shape = *shape;
  }
  for (std::size_t k = 0; k < info.attributes.size() && is_scalar(info.attributes[k]); ++k) {
    const std::string_view attribute = info.attributes[k].name;
    const auto scalar = read_scalar(read, attribute, p.dtype);
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
