#include "planck/ops/conv/problem.h"

#include <fmt/format.h>

#include "planck/ops/matmul/problem.h"

namespace planck {

namespace {

constexpr OperandInfo kForward[] = {
    {"x", Role::input}, {"weight", Role::input}, {"y", Role::output}};
constexpr OperandInfo kInput[] = {
    {"dy", Role::input}, {"weight", Role::input}, {"dx", Role::output}};
constexpr OperandInfo kWeight[] = {
    {"x", Role::input}, {"dy", Role::input}, {"dweight", Role::output}};

#define PLANCK_CONV_ATTRIBUTES                                                       \
  {"stride_h", "1", "rows of x from one row of y to the next"},                      \
      {"stride_w", "1", "the same of columns"},                                      \
      {"padding_h", "0", "rows of zeros above and below x"},                         \
      {"padding_w", "0", "columns of zeros left and right of it"},                   \
      {"dilation_h", "1", "rows of x from one row of the kernel to the next"},       \
      {"dilation_w", "1", "the same of columns"}, {                                  \
    "groups", "1", "parts that channels and filters are cut into, apart from others" \
  }
constexpr AttributeInfo kForwardAttributes[] = {PLANCK_CONV_ATTRIBUTES};
constexpr AttributeInfo kInputAttributes[] = {
    PLANCK_CONV_ATTRIBUTES, {"height", "", "of dx"}, {"width", "", "of dx"}};
constexpr AttributeInfo kWeightAttributes[] = {
    PLANCK_CONV_ATTRIBUTES, {"kernel_h", "", "of dweight"}, {"kernel_w", "", "of dweight"}};
#undef PLANCK_CONV_ATTRIBUTES

constexpr OpInfo kInfos[] = {
    {"conv2d", OpCategory::matmul,
     "y[n, f, i, j] = sum of weight[f, c, u, v] * x[n, c, i * stride + u * dilation - padding, ..]",
     kForward, kForwardAttributes, false},
    {"conv2d_input", OpCategory::matmul,
     "dx[n, c, h, w] = sum of weight[f, c, u, v] * dy[n, f, i, j] where conv2d reads (h, w) for "
     "(i, j) and (u, v)",
     kInput, kInputAttributes, false},
    {"conv2d_weight", OpCategory::matmul,
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
  // The padded images too, and what lies between two rows that are read, can be counted.
  const Shape padded = {x[1], x[2] + 2 * options.padding[0], x[3] + 2 * options.padding[1]};
  for (const Shape& shape : {y(), padded})
    if (auto ok = check_shape(shape, info().name); !ok) return ok;
  const std::int64_t products = channels() * taps();
  if (element_dtype == Dtype::s8 && products > kMostIntegerProducts)
    return invalid(fmt::format("{} products an element, sums of s8 products fit in i32 up to {}",
                               products, kMostIntegerProducts));
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
                                 const InputSpec& second) {
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
  ConvProblem p{
      .kind = kind, .element_dtype = first.dtype, .x = a, .weight = b, .options = options};
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

}  // namespace planck
