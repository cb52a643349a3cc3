#include "planck/ops/sort/sort.problem.h"

#include <fmt/format.h>

#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kX = {"x", Role::input}, kValues = {"values", Role::output},
                      kIndices = {"indices", Role::output};
constexpr OperandInfo kBoth[] = {kX, kValues, kIndices};
constexpr OperandInfo kPositions[] = {kX, kIndices};

constexpr AttributeInfo kAxis = {"axis", "-1", "the axis to sort along; -1: the last"};
constexpr AttributeInfo kSortAttributes[] = {
    kAxis, {"descending", "false", "true: the largest first, NaN before all"}};
constexpr AttributeInfo kTopkAttributes[] = {
    kAxis,
    {"k", "", "how many to keep"},
    {"largest", "true", "false: the smallest"},
    {"sorted", "true", "false allows any order; they come sorted all the same"}};

// In the order of SortKind.
constexpr OpInfo kInfos[] = {
    {"sort", OpCategory::sort, "values = x in order along the axis, stably; indices = from where",
     kBoth, kSortAttributes, false},
    {"argsort", OpCategory::sort, "indices = the positions of x in order along the axis, stably",
     kPositions, kSortAttributes, false},
    {"topk", OpCategory::sort,
     "values = the k largest (or smallest) along the axis, in order; indices = from where", kBoth,
     kTopkAttributes, false},
};

constexpr Dtype kDtypes[] = {Dtype::f32,  Dtype::f64, Dtype::f16,
                             Dtype::bf16, Dtype::i32, Dtype::i64};

}  // namespace

const OpInfo& SortProblem::info() const { return kInfos[static_cast<std::size_t>(kind)]; }

std::int64_t SortProblem::rows() const {
  std::int64_t n = 1;
  for (int d = 0; d < x.rank(); ++d)
    if (d != axis) n *= x[d];
  return n;
}

Shape SortProblem::out_shape() const {
  Shape s = x;
  s[axis] = kept();
  return s;
}

Result<void> SortProblem::check() const {
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", info().name, text));
  };
  bool supported = false;
  for (Dtype t : kDtypes) supported |= t == element_dtype;
  if (!supported)
    return invalid(fmt::format("element dtype {} is not supported", name(element_dtype)));
  if (auto ok = check_shape(x, info().name); !ok) return ok;
  if (axis < 0 || axis >= x.rank())
    return invalid(fmt::format("axis is {}, x has {} axes", axis, x.rank()));
  if (kind == SortKind::topk && (k < 0 || k > length()))
    return invalid(fmt::format("k is {}, the axis has {} elements", k, length()));
  return {};
}

std::array<OperandSpec, kSortOperands> SortProblem::specs() const {
  std::array<OperandSpec, kSortOperands> out;
  for (OperandSpec& s : out) {
    s.dtype = element_dtype;
    s.shape = out_shape();
  }
  out[0].shape = x;
  out[indices()].dtype = Dtype::i64;
  return out;
}

namespace {

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs, SortKind kind) {
  const AttributeReader read(op, attributes);
  const InputSpec& x = inputs.find("x")->second;
  SortProblem p;
  p.kind = kind;
  p.element_dtype = x.dtype;
  p.x = x.shape;
  const auto axis = read.axis("axis", p.x.rank());
  if (!axis) return tl::unexpected(axis.error());
  p.axis = *axis;
  const auto descending = read.boolean(kind == SortKind::topk ? "largest" : "descending");
  if (!descending) return tl::unexpected(descending.error());
  p.descending = *descending;
  if (kind == SortKind::topk) {
    const auto k = read.integer("k");
    if (!k) return tl::unexpected(k.error());
    p.k = *k;
    if (const auto sorted = read.boolean("sorted"); !sorted) return tl::unexpected(sorted.error());
  }
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<SortProblem>(p));
}

}  // namespace

std::vector<OpEntry> sort_ops() {
  return entries_of_kinds<&parse>(kInfos, [](SortKind) { return elements_of(kDtypes); });
}

}  // namespace planck
