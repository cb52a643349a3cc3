#include "planck/ops/grid_sample/grid_sample.problem.h"

#include <fmt/format.h>

#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kForward[] = {
    {"input", Role::input}, {"grid", Role::input}, {"output", Role::output}};
constexpr OperandInfo kBackward[] = {{"dout", Role::input},
                                     {"input", Role::input},
                                     {"grid", Role::input},
                                     {"dinput", Role::output, true, true},
                                     {"dgrid", Role::output, true, true}};
constexpr AttributeInfo kSampleAttributes[] = {
    {"mode", "bilinear", "bilinear (trilinear in 3-D), nearest or bicubic (2-D)"},
    {"padding", "zeros", "what lies outside the input: zeros, border or reflection"},
    {"align_corners", "false", "true: -1 and 1 are the centers of the outermost elements"},
};
constexpr AttributeInfo kBackwardAttributes[] = {
    kSampleAttributes[0],
    kSampleAttributes[1],
    kSampleAttributes[2],
    {"accumulate", "false",
     "true: adds to dinput and dgrid where they are given; one that is not is written"}};
constexpr OpInfo kForwardInfo = {
    "grid_sample",
    OpCategory::sampling,
    "output[n, c, p] = sum over taps of weight * input[n, c, tap], around grid[n, p]",
    kForward,
    kSampleAttributes,
    false};
constexpr OpInfo kBackwardInfo = {"grid_sample_backward",
                                  OpCategory::sampling,
                                  "dinput[n, c, tap] = sum of weight * dout[n, c, p]; dgrid[n, p] "
                                  "= sum over c of dout[n, c, p] * "
                                  "d output[n, c, p] / d grid[n, p]",
                                  kBackward,
                                  kBackwardAttributes,
                                  false};

constexpr std::string_view kModes[] = {"bilinear", "nearest", "bicubic"};
constexpr std::string_view kPaddings[] = {"zeros", "border", "reflection"};

Error invalid(const OpInfo& op, const std::string& text) {
  return {ErrorCode::invalid_problem, fmt::format("{}: {}", op.name, text)};
}

// The enumerator of the name that an attribute has.
template <class Enum>
Result<Enum> choice(const OpInfo& op, const Attributes& attributes, std::string_view attribute,
                    std::span<const std::string_view> names) {
  const std::string text = AttributeReader(op, attributes).text(attribute);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  return tl::unexpected(invalid(
      op, fmt::format("{}={} is not {}, {} or {}", attribute, text, names[0], names[1], names[2])));
}

template <bool kIsBackward>
Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs) {
  GridSampleProblem p;
  p.backward = kIsBackward;
  p.dtype = inputs.find("input")->second.dtype;
  p.input = inputs.find("input")->second.shape;
  p.grid = inputs.find("grid")->second.shape;
  const auto mode = choice<SampleMode>(op, attributes, "mode", kModes);
  if (!mode) return tl::unexpected(mode.error());
  const auto padding = choice<SamplePadding>(op, attributes, "padding", kPaddings);
  if (!padding) return tl::unexpected(padding.error());
  const auto align = AttributeReader(op, attributes).boolean("align_corners");
  if (!align) return tl::unexpected(align.error());
  p.mode = *mode;
  p.padding = *padding;
  p.align_corners = *align;
  if (kIsBackward) {
    const auto accumulate = AttributeReader(op, attributes).boolean("accumulate");
    if (!accumulate) return tl::unexpected(accumulate.error());
    p.accumulate = *accumulate && inputs.find("dinput") != inputs.end();
    p.accumulate_grid = *accumulate && inputs.find("dgrid") != inputs.end();
    if (*accumulate && !p.accumulate && !p.accumulate_grid)
      return tl::unexpected(
          invalid(op, "accumulate=true adds to dinput and dgrid, neither of which is given"));
  }
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<GridSampleProblem>(p));
}

}  // namespace

Shape GridSampleProblem::output() const {
  Shape shape = {input[0], input[1]};
  for (int d = 1; d + 1 < grid.rank(); ++d) shape.push_back(grid[d]);
  return shape;
}

SampleGeometry GridSampleProblem::geometry() const {
  SampleGeometry g;
  g.dims = input.rank() - 2;
  g.batch = input[0];
  g.channels = input[1];
  for (int d = 0; d < g.dims; ++d) {
    g.in[3 - g.dims + d] = input[2 + d];
    g.out[3 - g.dims + d] = grid[1 + d];
  }
  return g;
}

int GridSampleProblem::taps() const {
  if (mode == SampleMode::nearest) return 1;
  if (mode == SampleMode::bicubic) return 16;
  return input.rank() == 5 ? 8 : 4;
}

const OpInfo& GridSampleProblem::info() const { return backward ? kBackwardInfo : kForwardInfo; }

Result<void> GridSampleProblem::check() const {
  const auto refuse = [&](const std::string& text) -> Result<void> {
    return tl::unexpected(invalid(info(), text));
  };
  if (auto ok = check_shape(input, info().name); !ok) return ok;
  if (auto ok = check_shape(grid, info().name); !ok) return ok;
  if (!is_float(dtype))
    return refuse(fmt::format("element dtype is {}, must be f32, f64, f16 or bf16", name(dtype)));
  if (input.rank() != 4 && input.rank() != 5)
    return refuse(fmt::format("input has shape {}, must be [N, C, H, W] or [N, C, D, H, W]",
                              to_string(input)));
  if (grid.rank() != input.rank() || grid[0] != input[0] ||
      grid[grid.rank() - 1] != input.rank() - 2)
    return refuse(fmt::format("grid has shape {}, an input of shape {} needs [{}, {}OH, OW, {}]",
                              to_string(grid), to_string(input), input[0],
                              input.rank() == 5 ? "OD, " : "", input.rank() - 2));
  for (int d = 2; d < input.rank(); ++d)
    if (input[d] == 0)
      return refuse(
          fmt::format("input has shape {}, there is nothing to sample", to_string(input)));
  if (mode == SampleMode::bicubic && input.rank() != 4)
    return refuse(fmt::format("mode is bicubic, input of shape {} has 3 dimensions, must have 2",
                              to_string(input)));
  if (auto ok = check_shape(output(), info().name); !ok) return ok;
  return {};
}

std::array<OperandSpec, 5> GridSampleProblem::specs() const {
  const auto spec = [&](const Shape& shape) {
    OperandSpec s;
    s.dtype = dtype;
    s.shape = shape;
    return s;
  };
  if (!backward) return {spec(input), spec(grid), spec(output())};
  return {spec(output()), spec(input), spec(grid), spec(input), spec(grid)};
}

std::vector<OpEntry> affine_grid_ops();

std::vector<OpEntry> grid_sample_ops() {
  const std::vector<DtypePair> dtypes = {{Dtype::f32, std::nullopt},
                                         {Dtype::f64, std::nullopt},
                                         {Dtype::f16, std::nullopt},
                                         {Dtype::bf16, std::nullopt}};
  std::vector<OpEntry> entries = {{&kForwardInfo, dtypes, &parse<false>},
                                  {&kBackwardInfo, dtypes, &parse<true>}};
  for (const OpEntry& entry : affine_grid_ops()) entries.push_back(entry);
  return entries;
}

}  // namespace planck
