#include "planck/ops/pool/pool.problem.h"

#include <fmt/format.h>

#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kX = {"x", Role::input}, kY = {"y", Role::output}, kDy = {"dy", Role::input},
                      kDx = {"dx", Role::output};
constexpr OperandInfo kMax[] = {kX, kY, {"indices", Role::output}};
constexpr OperandInfo kMaxBackward[] = {kDy, {"indices", Role::input}, kDx};
constexpr OperandInfo kAverage[] = {kX, kY};
constexpr OperandInfo kAverageBackward[] = {kDy, kDx};

constexpr AttributeInfo kKernel = {"kernel", "", "rows x columns of a window; one number: both"};
constexpr AttributeInfo kStride = {"stride", "0", "from window to window; 0: the kernel's"};
constexpr AttributeInfo kPadding = {"padding", "0", "around the image, at most half the kernel"};
constexpr AttributeInfo kDilation = {"dilation", "1", "from tap to tap of a window"};
constexpr AttributeInfo kCeil = {"ceil_mode", "false",
                                 "true: a last window that is cut off counts"};
constexpr AttributeInfo kInclude = {"count_include_pad", "true",
                                    "false: averages are over pixels alone"};
constexpr AttributeInfo kInput = {"input_size", "", "H x W of dx"};
constexpr AttributeInfo kMaxAttributes[] = {kKernel, kStride, kPadding, kDilation, kCeil};
constexpr AttributeInfo kMaxBackwardAttributes[] = {kInput,   kKernel,   kStride,
                                                    kPadding, kDilation, kCeil};
constexpr AttributeInfo kAverageAttributes[] = {kKernel, kStride, kPadding, kCeil, kInclude};
constexpr AttributeInfo kAverageBackwardAttributes[] = {kInput,   kKernel, kStride,
                                                        kPadding, kCeil,   kInclude};
constexpr AttributeInfo kAdaptiveAttributes[] = {{"size", "", "OH x OW: windows along each axis"}};
constexpr AttributeInfo kAdaptiveBackwardAttributes[] = {kInput};

constexpr OpCategory kCategory = OpCategory::pooling;

// In the order of PoolKind.
constexpr OpInfo kInfos[] = {
    {"max_pool2d", kCategory, "y = the largest x of a window, indices = its h * W + w", kMax,
     kMaxAttributes, false},
    {"max_pool2d_backward", kCategory, "dx[h, w] = sum of dy over windows with index h * W + w",
     kMaxBackward, kMaxBackwardAttributes, false},
    {"avg_pool2d", kCategory, "y = (sum of x over a window) / count", kAverage, kAverageAttributes,
     false},
    {"avg_pool2d_backward", kCategory, "dx = sum of dy / count over the windows of a pixel",
     kAverageBackward, kAverageBackwardAttributes, false},
    {"adaptive_avg_pool2d", kCategory,
     "y[i] = mean of x[floor(i * H / OH) ... ceil((i + 1) * H / OH)), both axes", kAverage,
     kAdaptiveAttributes, false},
    {"adaptive_avg_pool2d_backward", kCategory,
     "dx = sum of dy / count over the windows of a pixel", kAverageBackward,
     kAdaptiveBackwardAttributes, false},
};

constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;  // of any extent or attribute

}  // namespace

const OpInfo& PoolProblem::info() const { return kInfos[static_cast<std::size_t>(kind)]; }

PoolAxis PoolProblem::axis(std::size_t which) const {
  PoolAxis a;
  a.in = x[x.rank() - 2 + static_cast<int>(which)];
  if (adaptive()) {
    a.out = size[which];
    // Windows of one size side by side need no divisions.
    a.kernel = a.stride = a.out > 0 && a.in % a.out == 0 ? a.in / a.out : 0;
    return a;
  }
  a.kernel = options.kernel[which];
  a.stride = options.stride[which] == 0 ? a.kernel : options.stride[which];
  a.padding = options.padding[which];
  a.dilation = options.dilation[which];
  a.padding_counts = !largest() && options.count_include_pad;
  const std::int64_t room = a.in + 2 * a.padding - a.dilation * (a.kernel - 1) - 1;
  const std::int64_t rounded = room + (options.ceil_mode ? a.stride - 1 : 0);
  a.out = rounded < 0 ? 0 : rounded / a.stride + 1;
  if (options.ceil_mode && (a.out - 1) * a.stride >= a.in + a.padding) --a.out;
  return a;
}

Shape PoolProblem::out_shape() const {
  Shape s = x;
  const PoolAxes a = axes();
  s[s.rank() - 2] = a.rows.out;
  s[s.rank() - 1] = a.columns.out;
  return s;
}

std::int64_t PoolProblem::planes() const {
  std::int64_t n = 1;
  for (int d = 0; d + 2 < x.rank(); ++d) n *= x[d];
  return n;
}

Result<void> PoolProblem::check() const {
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", info().name, text));
  };
  const std::string_view image = backward() ? "dx" : "x";
  const bool bytes = kind == PoolKind::max_pool2d;
  if (!is_float(element_dtype) && !(bytes && element_dtype == Dtype::s8))
    return invalid(fmt::format("{} is {}, must be f32, f64, f16{}", image, name(element_dtype),
                               bytes ? ", bf16 or s8" : " or bf16"));
  if (auto ok = check_shape(x, info().name); !ok) return ok;
  if (x.rank() < 2)
    return invalid(fmt::format("{} has shape {}, must have 2 axes at least", image, to_string(x)));
  for (std::size_t which : {0u, 1u})
    if (auto ok = check_axis(which); !ok) return ok;
  const std::int64_t pixels = x[x.rank() - 2] * x[x.rank() - 1];
  if (largest() && pixels > kMost)
    return invalid(
        fmt::format("a plane of {} has {} pixels, indices reach {}", image, pixels, kMost));
  return check_shape(out_shape(), info().name);
}

Result<void> PoolProblem::check_axis(std::size_t which) const {
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", info().name, text));
  };
  const std::int64_t in = x[x.rank() - 2 + static_cast<int>(which)];
  const char* along = which == 0 ? "rows" : "columns";
  if (in < 1 || in > kMost)
    return invalid(fmt::format("an image has {} {}, must be 1 to {}", in, along, kMost));
  const auto within = [&](std::string_view what, std::int64_t value, std::int64_t least,
                          std::int64_t most) -> Result<void> {
    if (value >= least && value <= most) return {};
    return invalid(
        fmt::format("{} is {} along {}, must be {} to {}", what, value, along, least, most));
  };
  if (adaptive()) return within("size", size[which], 1, kMost);
  const std::int64_t kernel = options.kernel[which];
  if (auto ok = within("kernel", kernel, 1, kMost); !ok) return ok;
  if (auto ok = within("stride", options.stride[which], 0, kMost); !ok) return ok;
  if (auto ok = within("padding", options.padding[which], 0, kernel / 2); !ok) return ok;
  if (auto ok = within("dilation", options.dilation[which], 1, largest() ? kMost : 1); !ok)
    return ok;
  if (const PoolAxis a = axis(which); a.out < 1)
    return invalid(fmt::format("a window spans {} {}, the padded image has {}",
                               a.dilation * (a.kernel - 1) + 1, along, a.in + 2 * a.padding));
  return {};
}

std::array<OperandSpec, kPoolOperands> PoolProblem::specs() const {
  std::array<OperandSpec, kPoolOperands> out;
  for (std::size_t i = 0; i < info().operands.size(); ++i) {
    const std::string_view operand = info().operands[i].name;
    out[i].dtype = operand == "indices" ? Dtype::i32 : element_dtype;
    out[i].shape = operand == "x" || operand == "dx" ? x : out_shape();
  }
  return out;
}

namespace {

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs, PoolKind kind) {
  const AttributeReader read(op, attributes);
  const InputSpec& main = inputs.find(op.operands[0].name)->second;
  PoolProblem p;
  p.kind = kind;
  p.element_dtype = main.dtype;
  p.x = main.shape;
  if (p.x.rank() < 2)
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: {} has shape {}, must have 2 axes at least", op.name,
                            op.operands[0].name, to_string(p.x)));
  const std::pair<std::string_view, PoolPair*> pairs[] = {{"size", &p.size},
                                                          {"kernel", &p.options.kernel},
                                                          {"stride", &p.options.stride},
                                                          {"padding", &p.options.padding},
                                                          {"dilation", &p.options.dilation}};
  const std::pair<std::string_view, bool*> flags[] = {
      {"ceil_mode", &p.options.ceil_mode}, {"count_include_pad", &p.options.count_include_pad}};
  for (const AttributeInfo& attribute : op.attributes) {
    for (const auto& [name, to] : pairs)
      if (name == attribute.name) {
        const auto value = read.pair(name);
        if (!value) return tl::unexpected(value.error());
        *to = *value;
      }
    for (const auto& [name, to] : flags)
      if (name == attribute.name) {
        const auto value = read.boolean(name);
        if (!value) return tl::unexpected(value.error());
        *to = *value;
      }
  }
  if (p.backward()) {
    const auto image = read.pair("input_size");
    if (!image) return tl::unexpected(image.error());
    for (int a : {0, 1}) {
      const int d = p.x.rank() - 2 + a;
      p.size[static_cast<std::size_t>(a)] = p.x[d];
      p.x[d] = (*image)[static_cast<std::size_t>(a)];
    }
  }
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<PoolProblem>(p));
}

}  // namespace

std::vector<OpEntry> pool_ops() {
  return entries_of_kinds<&parse>(kInfos, [](PoolKind kind) {
    auto dtypes = float_elements();
    if (kind == PoolKind::max_pool2d) dtypes.push_back({Dtype::s8, std::nullopt});
    return dtypes;
  });
}

}  // namespace planck
