#include <fmt/format.h>

#include "planck/ops/grid_sample/grid_sample.problem.h"
#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kForward[] = {{"theta", Role::input}, {"grid", Role::output}};
constexpr OperandInfo kBackward[] = {{"dgrid", Role::input}, {"dtheta", Role::output}};
constexpr AttributeInfo kAlign = {"align_corners", "false",
                                  "true: -1 and 1 are the centers of the outermost elements"};
constexpr AttributeInfo kForwardAttributes[] = {
    {"size", "", "N,C,H,W or N,C,D,H,W: the output that the grid is for"}, kAlign};
constexpr AttributeInfo kBackwardAttributes[] = {kAlign};
constexpr OpInfo kForwardInfo = {"affine_grid",
                                 OpCategory::sampling,
                                 "grid[n, p] = theta[n] * (x, y, 1), p at (x, y) in [-1, 1]",
                                 kForward,
                                 kForwardAttributes,
                                 false};
constexpr OpInfo kBackwardInfo = {"affine_grid_backward",
                                  OpCategory::sampling,
                                  "dtheta[n] = sum over p of dgrid[n, p] * (x, y, 1)",
                                  kBackward,
                                  kBackwardAttributes,
                                  false};

Error invalid(const OpInfo& op, const std::string& text) {
  return {ErrorCode::invalid_problem, fmt::format("{}: {}", op.name, text)};
}

template <bool kIsBackward>
Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs) {
  const AttributeReader read(op, attributes);
  AffineGridProblem p;
  p.backward = kIsBackward;
  const InputSpec& main = inputs.find(op.operands[0].name)->second;
  p.dtype = main.dtype;
  if (kIsBackward) {  // [N, (D,) H, W, dims]
    if (main.shape.rank() != 4 && main.shape.rank() != 5)
      return tl::unexpected(
          invalid(op, fmt::format("dgrid has shape {}, must be [N, H, W, 2] or [N, D, H, W, 3]",
                                  to_string(main.shape))));
    p.size = {main.shape[0], 1};
    for (int d = 1; d + 1 < main.shape.rank(); ++d) p.size.push_back(main.shape[d]);
  } else {
    const auto size = read.list("size", "N,C,H,W or N,C,D,H,W");
    if (!size) return tl::unexpected(size.error());
    p.size = *size;
  }
  const auto align = read.boolean("align_corners");
  if (!align) return tl::unexpected(align.error());
  p.align_corners = *align;
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<AffineGridProblem>(p));
}

}  // namespace

Shape AffineGridProblem::theta() const { return {size[0], dims(), dims() + 1}; }

Shape AffineGridProblem::grid() const {
  Shape shape = {size[0]};
  for (int d = 2; d < size.rank(); ++d) shape.push_back(size[d]);
  shape.push_back(dims());
  return shape;
}

const OpInfo& AffineGridProblem::info() const { return backward ? kBackwardInfo : kForwardInfo; }

Result<void> AffineGridProblem::check() const {
  if (auto ok = check_shape(size, info().name); !ok) return ok;
  if (!is_float(dtype))
    return tl::unexpected(invalid(
        info(), fmt::format("element dtype is {}, must be f32, f64, f16 or bf16", name(dtype))));
  if (size.rank() != 4 && size.rank() != 5)
    return tl::unexpected(invalid(
        info(),
        fmt::format("size is {}, must be [N, C, H, W] or [N, C, D, H, W]", to_string(size))));
  return check_shape(grid(), info().name);
}

std::array<OperandSpec, 2> AffineGridProblem::specs() const {
  OperandSpec of_theta, of_grid;
  of_theta.dtype = of_grid.dtype = dtype;
  of_theta.shape = theta();
  of_grid.shape = grid();
  if (backward) return {of_grid, of_theta};
  return {of_theta, of_grid};
}

std::vector<OpEntry> affine_grid_ops() {
  const std::vector<DtypePair> dtypes = {{Dtype::f32, std::nullopt},
                                         {Dtype::f64, std::nullopt},
                                         {Dtype::f16, std::nullopt},
                                         {Dtype::bf16, std::nullopt}};
  return {{&kForwardInfo, dtypes, &parse<false>}, {&kBackwardInfo, dtypes, &parse<true>}};
}

}  // namespace planck
