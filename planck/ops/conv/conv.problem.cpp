#include "planck/ops/conv/conv.problem.h"

#include <fmt/format.h>

#include "planck/loops/gemm/geometry.h"
#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kForward[] = {
    {"x", Role::input}, {"weight", Role::input}, {"y", Role::output}};
constexpr OperandInfo kInput[] = {
    {"dy", Role::input}, {"weight", Role::input}, {"dx", Role::output}};
constexpr OperandInfo kWeight[] = {
    {"x", Role::input}, {"dy", Role::input}, {"dweight", Role::output}};

constexpr AttributeInfo kStride = {"stride", "1",
                                   "rows x columns of x from one place of y to the next"};
constexpr AttributeInfo kPadding = {"padding", "0", "rows x columns of zeros at each side of x"};
constexpr AttributeInfo kDilation = {"dilation", "1",
                                     "rows x columns of x from one tap of the kernel to the next"};
constexpr AttributeInfo kGroups = {"groups", "1", "parts that channels and filters are cut into"};
constexpr AttributeInfo kMath = {
    "math", "",
    "what a product means: chain (one fma after the other), exact (f32, s8: integers), tensor_core "
    "(bf16, f16, f32 as TF32); else the dtype's own: chain for f32 and f64, exact for s8, "
    "tensor_core for bf16 and f16"};
constexpr AttributeInfo kForwardAttributes[] = {kStride, kPadding, kDilation, kGroups, kMath};
constexpr AttributeInfo kInputAttributes[] = {
    kStride, kPadding, kDilation, kGroups, {"size", "", "rows x columns of dx"}, kMath};
constexpr AttributeInfo kWeightAttributes[] = {
    kStride, kPadding, kDilation, kGroups, {"kernel", "", "rows x columns of dweight"}, kMath};

constexpr OpInfo kInfos[] = {
    {"conv2d", OpCategory::convolution,
     "y[n, f, i, j] = sum of weight[f, c, u, v] * x[n, c, i * stride + u * dilation - padding, ..]",
     kForward, kForwardAttributes, false},
    {"conv2d_input", OpCategory::convolution,
     "dx[n, c, h, w] = sum of weight[f, c, u, v] * dy[n, f, i, j] where conv2d reads (h, w) for "
     "(i, j) and (u, v)",
     kInput, kInputAttributes, false},
    {"conv2d_weight", OpCategory::convolution,
     "dweight[f, c, u, v] = sum of dy[n, f, i, j] * x[n, c, i * stride + u * dilation - padding, "
     "..]",
     kWeight, kWeightAttributes, false},
};

constexpr std::int64_t kMostExtent = (std::int64_t{1} << 31) - 1;

}  // namespace

const OpInfo& ConvProblem::info() const { return kInfos[static_cast<std::size_t>(kind)]; }

std::int64_t ConvProblem::extent(int axis) const {
  const auto a = static_cast<std::size_t>(axis);
  const std::int64_t kernel = (weight[2 + axis] - 1) * options.dilation[a] + 1;
  const std::int64_t room = x[2 + axis] + 2 * options.padding[a] - kernel;
  return room < 0 ? 0 : room / options.stride[a] + 1;
}

Result<void> ConvProblem::check() const {
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", info().name, text));
  };
  const bool integers = element_dtype == Dtype::s8 && kind == ConvKind::conv2d;
  if (!is_float(element_dtype) && !integers)
    return invalid(fmt::format("element dtype is {}, must be f32, f64, f16{}", name(element_dtype),
                               kind == ConvKind::conv2d ? ", bf16 or s8" : " or bf16"));
  if (x.rank() != 4 || weight.rank() != 4)
    return invalid(fmt::format("x has shape {}, weight {}: both need four axes", to_string(x),
                               to_string(weight)));
  for (const Shape& shape : {x, weight})
    if (auto ok = check_shape(shape, info().name); !ok) return ok;
  if (options.groups < 1)
    return invalid(fmt::format("groups is {}, must be at least 1", options.groups));
  if (weight[0] % options.groups != 0)
    return invalid(fmt::format("weight has {} filters, must be a multiple of groups, {}", weight[0],
                               options.groups));
  if (x[1] / options.groups != weight[1] || x[1] % options.groups != 0)
    return invalid(fmt::format("x has {} channels, weight has {} in each of {} groups", x[1],
                               weight[1], options.groups));
  constexpr const char* kAxes[] = {"height", "width"};
  for (int axis = 0; axis < 2; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const auto within = [&](std::int64_t v, std::int64_t least) {
      return v >= least && v <= kMostExtent;
    };
    if (!within(options.stride[a], 1) || !within(options.dilation[a], 1) ||
        !within(options.padding[a], 0))
      return invalid(
          fmt::format("along {}, stride is {}, dilation {}, padding {}: must be at "
                      "least 1, 1 and 0, and below 2^31",
                      kAxes[axis], options.stride[a], options.dilation[a], options.padding[a]));
    if (!within(x[2 + axis], 0) || !within(weight[2 + axis], 1))
      return invalid(
          fmt::format("x has {} {}, the kernel {}: must be at least 0 and 1, and below "
                      "2^31",
                      kAxes[axis], x[2 + axis], weight[2 + axis]));
    if (extent(axis) < 1)
      return invalid(fmt::format("the kernel covers {} of {}, x has {} with its padding",
                                 (weight[2 + axis] - 1) * options.dilation[a] + 1, kAxes[axis],
                                 x[2 + axis] + 2 * options.padding[a]));
  }
  // Padded images, and with them the distance between two rows that are read, fit in int64 too.
  const Shape padded = {x[1], x[2] + 2 * options.padding[0], x[3] + 2 * options.padding[1]};
  for (const Shape& shape : {y(), padded})
    if (auto ok = check_shape(shape, info().name); !ok) return ok;
  const std::int64_t products = channels() * taps();
  if (element_dtype == Dtype::s8 && products > gemm::kMostIntegerProducts)
    return invalid(fmt::format("{} products per element, sums of s8 products fit in i32 up to {}",
                               products, gemm::kMostIntegerProducts));
  if (!serves(math, element_dtype))
    return invalid(
        fmt::format("math is {}, which is not defined for {}", name(math), name(element_dtype)));
  return {};
}

std::array<OperandSpec, 3> ConvProblem::specs() const {
  const auto spec = [](Dtype dtype, const Shape& shape) {
    return OperandSpec{.dtype = dtype, .shape = shape, .count_rule = {}};
  };
  switch (kind) {
    case ConvKind::conv2d:
      return {spec(element_dtype, x), spec(element_dtype, weight), spec(output_dtype(), y())};
    case ConvKind::conv2d_input:
      return {spec(element_dtype, y()), spec(element_dtype, weight), spec(element_dtype, x)};
    default:
      return {spec(element_dtype, x), spec(element_dtype, y()), spec(element_dtype, weight)};
  }
}

Result<ConvProblem> conv_problem(ConvKind kind, const Conv2dOptions& options,
                                 std::array<std::int64_t, 2> given, const InputSpec& first,
                                 const InputSpec& second, std::optional<ProductMath> math) {
  const OpInfo& op = kInfos[static_cast<std::size_t>(kind)];
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", op.name, text));
  };
  const Shape &a = first.shape, &b = second.shape;
  if (a.rank() != 4 || b.rank() != 4)
    return invalid(fmt::format("{} has shape {}, {} {}: both need four axes", op.operands[0].name,
                               to_string(a), op.operands[1].name, to_string(b)));
  if (first.dtype != second.dtype)
    return invalid(fmt::format("{} is {}, {} is {}: must be the same", op.operands[0].name,
                               name(first.dtype), op.operands[1].name, name(second.dtype)));
  if (options.groups < 1)
    return invalid(fmt::format("groups is {}, must be at least 1", options.groups));
  ConvProblem p{.kind = kind,
                .element_dtype = first.dtype,
                .x = a,
                .weight = b,
                .options = options,
                .math = math.value_or(default_product_math(first.dtype))};
  if (kind == ConvKind::conv2d_input) {
    if (b[1] > kMostExtent || options.groups > kMostExtent)
      return invalid(fmt::format("{} channels in each of {} groups: must be below 2^31", b[1],
                                 options.groups));
    p.x = {a[0], b[1] * options.groups, given[0], given[1]};
  }
  if (kind == ConvKind::conv2d_weight) p.weight = {b[1], a[1] / options.groups, given[0], given[1]};
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  const Shape y = p.y();
  if (kind == ConvKind::conv2d_input && a != y)
    return invalid(
        fmt::format("dy has shape {}, that of conv2d's y is {}", to_string(a), to_string(y)));
  if (kind == ConvKind::conv2d_weight && b != y)
    return invalid(
        fmt::format("dy has shape {}, that of conv2d's y is {}", to_string(b), to_string(y)));
  return p;
}

namespace {

template <ConvKind kKind>
Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs) {
  const AttributeReader read(op, attributes);
  Conv2dOptions options;
  std::array<std::int64_t, 2> given{};
  const std::string_view size = kKind == ConvKind::conv2d_input ? "size" : "kernel";
  for (const auto& [attribute, to] : {std::pair{std::string_view("stride"), &options.stride},
                                      {"padding", &options.padding},
                                      {"dilation", &options.dilation},
                                      {size, &given}}) {
    if (kKind == ConvKind::conv2d && to == &given) continue;
    const auto pair = read.pair(attribute);
    if (!pair) return tl::unexpected(pair.error());
    *to = *pair;
  }
  const auto groups = read.integer("groups");
  if (!groups) return tl::unexpected(groups.error());
  options.groups = *groups;
  std::optional<ProductMath> math;
  if (const auto asked = read.text("math"); !asked.empty()) {
    math = parse_product_math(asked);
    if (!math)
      return fail(
          ErrorCode::invalid_problem,
          fmt::format("{}: math is {}, must be chain, exact or tensor_core", op.name, asked));
  }
  return conv_problem(kKind, options, given, inputs.find(op.operands[0].name)->second,
                      inputs.find(op.operands[1].name)->second, math)
      .map([](const ConvProblem& p) {
        return std::unique_ptr<AnyProblem>(new ErasedProblem<ConvProblem>(p));
      });
}

}  // namespace

std::vector<OpEntry> conv_ops() {
  std::vector<DtypePair> floats;
  for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16})
    floats.push_back({t, std::nullopt});
  std::vector<DtypePair> all = floats;
  all.push_back({Dtype::s8, Dtype::i32});
  return {{&kInfos[0], all, parse<ConvKind::conv2d>},
          {&kInfos[1], floats, parse<ConvKind::conv2d_input>},
          {&kInfos[2], floats, parse<ConvKind::conv2d_weight>}};
}

}  // namespace planck
