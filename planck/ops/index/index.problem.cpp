#include "planck/ops/index/index.problem.h"

#include <fmt/format.h>

#include "planck/plan/registry.h"

namespace planck {

namespace {

constexpr OperandInfo kX = {"x", Role::input}, kIndex = {"index", Role::input};
constexpr OperandInfo kOut = {"out", Role::output};
constexpr OperandInfo kStart = {"x", Role::input, true};  // zeros where it is left out
constexpr OperandInfo kBadIndices = {"bad_indices", Role::output, true};  // outside of the axis
constexpr OperandInfo kMask = {"mask", Role::input};
constexpr OperandInfo kCount = {"count", Role::output};

constexpr OperandInfo kRead[] = {kX, kIndex, kOut, kBadIndices};
constexpr OperandInfo kWrite[] = {kStart, kIndex, {"source", Role::input}, kOut, kBadIndices};
constexpr OperandInfo kMaskSelect[] = {kX, kMask, {"values", Role::output}, kCount};
constexpr OperandInfo kMaskScatter[] = {kStart, kMask, {"values", Role::input}, kOut};
constexpr OperandInfo kNonzero[] = {kMask, {"positions", Role::output}, kCount};
constexpr OperandInfo kOneHot[] = {kIndex, kOut, kBadIndices};

constexpr AttributeInfo kAxis = {"axis", "0", "the axis indices point into; -1: the last"};
constexpr AttributeInfo kExtent = {"extent", "", "of the axis of out, where x is not given"};
constexpr AttributeInfo kReadAttributes[] = {kAxis};
constexpr AttributeInfo kWriteAttributes[] = {kAxis, kExtent};
constexpr AttributeInfo kOneHotAttributes[] = {{"classes", "", "extent of the new last axis"},
                                               {"dtype", "i64", "of the zeros and ones"}};

// In the order of IndexKind. Elements move, so that no op works in place.
constexpr OpInfo kInfos[] = {
    {"gather", OpCategory::index,
     "out[.., k, ..] = x[.., index[.., k, ..], ..]; 0 where the index is out of range", kRead,
     kReadAttributes, false},
    {"index_select", OpCategory::index,
     "out[.., k, ..] = x[.., index[k], ..]; 0 where the index is out of range", kRead,
     kReadAttributes, false},
    {"scatter", OpCategory::index,
     "out = x, then out[.., index[.., k, ..], ..] = source[.., k, ..] for ascending k; an index "
     "out of range writes nothing",
     kWrite, kWriteAttributes, false},
    {"scatter_add", OpCategory::index,
     "out = x + sum of source[.., k, ..] over index[.., k, ..] = a, ascending in k; an index "
     "out of range adds nothing",
     kWrite, kWriteAttributes, false},
    {"index_add", OpCategory::index,
     "out = x + sum of source[.., k, ..] over index[k] = a, ascending in k; an index out of range "
     "adds nothing",
     kWrite, kWriteAttributes, false},
    {"mask_select",
     OpCategory::index,
     "values = the elements of x where mask, row-major, then 0; count = how many",
     kMaskSelect,
     {},
     false},
    {"mask_scatter",
     OpCategory::index,
     "out = x, and where mask the next of values, row-major",
     kMaskScatter,
     {},
     false},
    {"nonzero",
     OpCategory::index,
     "positions = the flat positions where mask, ascending, then -1; count = how many",
     kNonzero,
     {},
     false},
    {"one_hot", OpCategory::index, "out[.., c] = (index[..] == c)", kOneHot, kOneHotAttributes,
     false},
};

constexpr Dtype kMoved[] = {Dtype::f32, Dtype::f64, Dtype::f16,    Dtype::bf16,
                            Dtype::i32, Dtype::i64, Dtype::boolean};
constexpr Dtype kAdded[] = {Dtype::f32,  Dtype::f64, Dtype::f16,
                            Dtype::bf16, Dtype::i32, Dtype::i64};
constexpr Dtype kMasked[] = {Dtype::boolean};

std::span<const Dtype> dtypes_of(IndexKind kind) {
  if (kind == IndexKind::scatter_add || kind == IndexKind::index_add) return kAdded;
  if (kind == IndexKind::nonzero) return kMasked;
  return kMoved;
}

bool contains(std::span<const Dtype> all, Dtype t) {
  for (Dtype each : all)
    if (each == t) return true;
  return false;
}

}  // namespace

const OpInfo& IndexProblem::info() const { return kInfos[static_cast<std::size_t>(kind)]; }

Shape IndexProblem::items() const {
  if (!by_slice()) return index;
  Shape s = x;
  s[axis] = index[0];
  return s;
}

std::int64_t IndexProblem::inner() const {
  std::int64_t n = 1;
  for (int d = axis + 1; d < x.rank(); ++d) n *= x[d];
  return n;
}

Result<void> IndexProblem::check() const {
  const std::string_view op = info().name;
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", op, text));
  };
  if (!contains(dtypes_of(kind), element_dtype))
    return invalid(fmt::format("element dtype {} is not supported", name(element_dtype)));
  if (index_dtype != Dtype::i32 && index_dtype != Dtype::i64)
    return invalid(fmt::format("index dtype is {}, must be i32 or i64", name(index_dtype)));
  if (auto ok = check_shape(x, op); !ok) return ok;
  if (auto ok = check_shape(index, op); !ok) return ok;
  if (kind == IndexKind::one_hot) {
    if (index.rank() >= kMaxRank)
      return invalid(fmt::format("index has {} axes, at most {} leave room for the classes'",
                                 index.rank(), kMaxRank - 1));
    if (classes < 0) return invalid(fmt::format("classes is {}, must be at least 0", classes));
    Shape out = index;
    out.push_back(classes);
    return check_shape(out, op);
  }
  if (!by_axis()) return {};
  if (axis < 0 || axis >= x.rank())
    return invalid(fmt::format("axis is {}, x has {} axes", axis, x.rank()));
  if (by_slice()) {
    if (index.rank() != 1)
      return invalid(fmt::format("index has shape {}, must have one axis", to_string(index)));
    return check_shape(items(), op);
  }
  bool fits = index.rank() == x.rank();
  for (int d = 0; fits && d < x.rank(); ++d) fits = d == axis || index[d] <= x[d];
  if (!fits)
    return invalid(fmt::format("index has shape {}, which must not exceed x's {} off axis {}",
                               to_string(index), to_string(x), axis));
  return {};
}

std::array<OperandSpec, kIndexOperands> IndexProblem::specs() const {
  std::array<OperandSpec, kIndexOperands> out;
  const bool reads = kind == IndexKind::gather || kind == IndexKind::index_select;
  const OpInfo& op = info();
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const std::string_view operand = op.operands[i].name;
    OperandSpec& s = out[i];
    s.dtype = element_dtype;
    if (operand == "x") {
      s.shape = x;
      s.used = s.required = with_x;
    } else if (operand == "index") {
      s.shape = index;
      s.dtype = index_dtype;
      s.other_dtype = index_dtype == Dtype::i32 ? Dtype::i64 : Dtype::i32;
    } else if (operand == "mask") {
      s.shape = x;
      s.dtype = Dtype::boolean;
    } else if (operand == "source") {
      s.shape = items();
    } else if (operand == "values" || operand == "positions") {
      s.shape = {numel(x)};
      if (operand == "positions") s.dtype = Dtype::i64;
    } else if (operand == "out") {
      s.shape = reads ? items() : kind == IndexKind::one_hot ? index : x;
      if (kind == IndexKind::one_hot) s.shape.push_back(classes);
    } else {  // count, bad_indices
      s.dtype = Dtype::i64;
    }
  }
  return out;
}

namespace {

Result<std::unique_ptr<AnyProblem>> refuse(const OpInfo& op, std::string text) {
  return fail(ErrorCode::invalid_problem, fmt::format("{}: {}", op.name, text));
}

// The shape of what is scattered to without an x: the source's, with the attribute along the axis.
Result<Shape> start_shape(const OpInfo& op, const AttributeReader& read, const Shape& source,
                          int axis) {
  if (read.text("extent").empty())
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: extent is not set, and no x is given", op.name));
  const auto extent = read.integer("extent");
  if (!extent) return tl::unexpected(extent.error());
  Shape s = source;
  s[axis] = *extent;
  return s;
}

Result<std::unique_ptr<AnyProblem>> parse(const OpInfo& op, const Attributes& attributes,
                                          const InputSpecs& inputs, IndexKind kind) {
  const AttributeReader read(op, attributes);
  const auto input = [&](std::string_view name) -> const InputSpec* {
    const auto it = inputs.find(name);
    return it == inputs.end() ? nullptr : &it->second;
  };
  IndexProblem p;
  p.kind = kind;
  const InputSpec *x = input("x"), *index = input("index"), *mask = input("mask");
  if (index != nullptr) {
    p.index = index->shape;
    p.index_dtype = index->dtype;
  }
  p.with_x = x != nullptr;
  if (mask != nullptr) p.x = mask->shape;
  if (x != nullptr) p.x = x->shape;
  for (std::string_view name : {"x", "source", "values", "mask"})
    if (const InputSpec* in = input(name)) {
      p.element_dtype = in->dtype;
      break;
    }
  if (mask != nullptr && mask->dtype != Dtype::boolean)
    return refuse(op, fmt::format("mask is {}, must be bool", name(mask->dtype)));
  if (kind == IndexKind::one_hot) {
    const auto classes = read.integer("classes");
    if (!classes) return tl::unexpected(classes.error());
    p.classes = *classes;
    const auto dtype = read.dtype("dtype");
    if (!dtype) return tl::unexpected(dtype.error());
    p.element_dtype = *dtype;
  }
  if (p.by_axis()) {
    const InputSpec* source = input("source");
    const Shape& shape = x != nullptr ? x->shape : source->shape;
    const auto axis = read.axis("axis", shape.rank());
    if (!axis) return tl::unexpected(axis.error());
    p.axis = *axis;
    if (x == nullptr) {
      const auto start = start_shape(op, read, shape, p.axis);
      if (!start) return tl::unexpected(start.error());
      p.x = *start;
    }
  }
  if (auto ok = p.check(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<AnyProblem>(new ErasedProblem<IndexProblem>(p));
}

}  // namespace

std::vector<OpEntry> index_ops() {
  return entries_of_kinds<&parse>(kInfos,
                                  [](IndexKind kind) { return elements_of(dtypes_of(kind)); });
}

}  // namespace planck
