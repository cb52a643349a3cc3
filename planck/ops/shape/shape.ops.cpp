#include "planck/ops/shape/shape.ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "planck/core/exception.h"

namespace planck {

namespace {

template <class... A>
tl::unexpected<Error> invalid(std::string_view op, fmt::format_string<A...> text, A&&... a) {
  return fail(ErrorCode::invalid_problem,
              fmt::format("{}: {}", op, fmt::format(text, std::forward<A>(a)...)));
}

// Puts the view's first element `offset` elements on. Packed elements share a byte: an odd one
// cannot be a first.
Result<View> moved(std::string_view op, View v, std::int64_t offset) {
  if (numel(v.shape) == 0) return v;
  if (is_packed(v.dtype) && offset % 2 != 0)
    return fail(
        ErrorCode::misaligned_operand,
        fmt::format("{}: the first element would be the second of a pair of {}: start at an "
                    "even one",
                    op, planck::name(v.dtype)));
  v.data = static_cast<std::byte*>(v.data) +
           (is_packed(v.dtype) ? offset / 2
                               : offset * static_cast<std::int64_t>(storage_bytes(v.dtype)));
  return v;
}

}  // namespace

Result<int> checked_axis(std::string_view op, int axis, int rank) {
  if (axis < -rank || axis >= rank)
    return invalid(op, "axis is {}, the tensor has rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

Shape broadcast_shapes(std::string_view op, std::initializer_list<const Shape*> shapes) {
  Shape out = **shapes.begin();
  for (const Shape* shape : shapes) out = value_or_throw(broadcast_shape(op, out, *shape));
  return out;
}

Result<Shape> complete_shape(std::string_view op, const Shape& extents, std::int64_t count) {
  Shape out = extents;
  int open = -1;
  std::int64_t known = 1;
  bool overflows = false, empty = false;
  for (int d = 0; d < out.rank(); ++d) {
    if (out[d] == -1) {
      if (open >= 0) return invalid(op, "shape {} has more than one -1", to_string(extents));
      open = d;
    } else if (out[d] < 0) {
      return invalid(op, "shape {} has a negative extent", to_string(extents));
    } else {
      empty |= out[d] == 0;
      overflows |= out[d] > 0 && __builtin_mul_overflow(known, out[d], &known);
    }
  }
  if (overflows)
    return invalid(op, "shape {} has more elements than fit in memory", to_string(extents));
  if (empty) known = 0;
  if (open >= 0) {
    if (known == 0 || count % known != 0)
      return invalid(op, "{} elements do not fill shape {}", count, to_string(extents));
    out[open] = count / known;
  } else if (known != count) {
    return invalid(op, "{} elements cannot have shape {}", count, to_string(extents));
  }
  return out;
}

Result<View> Reshape::view(const View& x) const {
  auto target = complete_shape(name, shape, numel(x.shape));
  if (!target) return tl::unexpected(target.error());
  View out = x;
  out.shape = *target;
  if (is_contiguous(x.shape, x.strides)) {
    out.strides = row_major(*target);
    return out;
  }
  auto strides = reshaped_strides(x, *target);
  if (!strides) return fail(ErrorCode::misaligned_operand, strides.error().message);
  out.strides = *strides;
  return out;
}

Result<View> Permute::view(const View& x) const {
  if (axes.rank() != x.shape.rank())
    return invalid(name, "{} axes for a tensor of rank {}", axes.rank(), x.shape.rank());
  View out = x;
  std::uint32_t seen = 0;
  for (int d = 0; d < axes.rank(); ++d) {
    auto from = checked_axis(name, static_cast<int>(axes[d]), x.shape.rank());
    if (!from) return tl::unexpected(from.error());
    if (seen >> *from & 1u)
      return invalid(name, "axis {} appears twice in {}", *from, to_string(axes));
    seen |= 1u << *from;
    out.shape[d] = x.shape[*from];
    out.strides[d] = x.strides[*from];
  }
  return out;
}

Result<View> Expand::view(const View& x) const {
  if (auto ok = check_shape(shape, name); !ok) return tl::unexpected(ok.error());
  const int added = shape.rank() - x.shape.rank();
  if (added < 0)
    return invalid(name, "shape {} has fewer axes than {}", to_string(shape), to_string(x.shape));
  View out = x;
  out.shape = shape;
  out.strides = Extents::filled(shape.rank(), 0);
  for (int d = added; d < shape.rank(); ++d) {
    const std::int64_t extent = x.shape[d - added];
    if (extent == shape[d])
      out.strides[d] = x.strides[d - added];
    else if (extent != 1)
      return invalid(name, "axis {} has extent {}, it cannot become {}", d - added, extent,
                     shape[d]);
  }
  return out;
}

SliceAxis::Span SliceAxis::span(std::int64_t extent) const {
  const auto from_front = [&](std::int64_t i) {
    if (i < 0) i = i < -extent ? -1 : i + extent;
    return step > 0 ? std::clamp<std::int64_t>(i, 0, extent)
                    : std::clamp<std::int64_t>(i, -1, extent - 1);
  };
  const std::int64_t first = from_front(start);
  // With a negative step the default stop means: up to and with the first element.
  const std::int64_t last = step < 0 && stop == INT64_MAX ? -1 : from_front(stop);
  const std::int64_t distance = step > 0 ? last - first : first - last;
  // As unsigned numbers: the lowest step has no opposite. Where there is no second element, a step
  // that leads far away is not taken.
  const auto by =
      step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const std::int64_t count =
      distance <= 0 ? 0
                    : static_cast<std::int64_t>(static_cast<std::uint64_t>(distance - 1) / by) + 1;
  return {first, count, count < 2 ? 1 : step};
}

Result<View> SliceAxis::view(const View& x) const {
  auto d = checked_axis(name, axis, x.shape.rank());
  if (!d) return tl::unexpected(d.error());
  if (step == 0) return invalid(name, "step is 0");
  const Span s = span(x.shape[*d]);
  View out = x;
  out.shape[*d] = s.count;
  out.strides[*d] = x.strides[*d] * s.step;
  return moved(name, out, s.first * x.strides[*d]);
}

Result<View> Flip::view(const View& x) const {
  if (axes >> x.shape.rank() != 0)
    return invalid(name, "axes {:#b} for a tensor of rank {}", axes, x.shape.rank());
  View out = x;
  std::int64_t offset = 0;
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (!(axes >> d & 1u) || x.shape[d] == 0) continue;
    offset += (x.shape[d] - 1) * x.strides[d];
    out.strides[d] = -x.strides[d];
  }
  return moved(name, out, offset);
}

namespace {

Slice whole(const Shape& shape) {
  return {Extents::filled(shape.rank(), 0), shape, Extents::filled(shape.rank(), 1)};
}

}  // namespace

Result<Assembly> Cat::assembly(std::span<const InputSpec> in) const {
  auto d = checked_axis(name, axis, in[0].shape.rank());
  if (!d) return tl::unexpected(d.error());
  Assembly out{in[0].dtype, in[0].shape, std::nullopt, {}};
  out.shape[*d] = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].dtype != out.dtype)
      return invalid(name, "tensor {} is {}, the first is {}", i, planck::name(in[i].dtype),
                     planck::name(out.dtype));
    Shape rest = in[i].shape, first = in[0].shape;
    if (rest.rank() == first.rank()) rest[*d] = first[*d] = 0;
    if (rest != first)
      return invalid(name,
                     "tensor {} has shape {}, the first {}: they may differ along axis {} only", i,
                     to_string(in[i].shape), to_string(in[0].shape), *d);
    Slice onto = whole(in[i].shape);
    onto.start[*d] = out.shape[*d];
    out.shape[*d] += in[i].shape[*d];
    out.pieces.push_back({static_cast<int>(i), onto});
  }
  return out;
}

Result<Assembly> Pad::assembly(std::span<const InputSpec> in) const {
  const Shape& x = in[0].shape;
  if (before.rank() != x.rank() || after.rank() != x.rank())
    return invalid(name, "{} and {} widths for a tensor of rank {}", before.rank(), after.rank(),
                   x.rank());
  Assembly out{in[0].dtype, x, value, {}};
  Slice onto = whole(x);
  for (int d = 0; d < x.rank(); ++d) {
    std::int64_t both = 0;
    if (__builtin_add_overflow(before[d], after[d], &both) ||
        __builtin_add_overflow(x[d], both, &out.shape[d]))
      return invalid(name, "axis {} of extent {} is widened by {} and {}: more than fit in memory",
                     d, x[d], before[d], after[d]);
    if (out.shape[d] < 0)
      return invalid(name, "axis {} of extent {} is cut by {} and {}", d, x[d], -before[d],
                     -after[d]);
    onto.start[d] = before[d];
  }
  out.pieces.push_back({0, onto});  // what lies outside is left out
  return out;
}

namespace {

// Every element of the slice is one of x.
Result<void> check_slice(std::string_view op, const Slice& slice, const Shape& x) {
  for (const Extents* of : {&slice.start, &slice.extent, &slice.step})
    if (of->rank() != x.rank())
      return invalid(op, "{} axes for a tensor of rank {}", of->rank(), x.rank());
  for (int d = 0; d < x.rank(); ++d) {
    const std::int64_t start = slice.start[d], extent = slice.extent[d], step = slice.step[d];
    const auto inside = [&] {
      std::int64_t last = 0;
      return start >= 0 && start < x[d] && !__builtin_mul_overflow(extent - 1, step, &last) &&
             !__builtin_add_overflow(start, last, &last) && last >= 0 && last < x[d];
    };
    if (extent < 0 || (extent > 0 && !inside()))
      return invalid(op, "{} elements from {} by {} along axis {}, which has extent {}", extent,
                     start, step, d, x[d]);
    if (extent > 1 && step == 0) return invalid(op, "the step along axis {} is 0", d);
  }
  return {};
}

}  // namespace

Result<View> SliceAxes::view(const View& x) const {
  if (auto ok = check_slice(name, slice, x.shape); !ok) return tl::unexpected(ok.error());
  View out = x;
  std::int64_t offset = 0;
  for (int d = 0; d < x.shape.rank(); ++d) {
    offset += slice.start[d] * x.strides[d];
    out.shape[d] = slice.extent[d];
    out.strides[d] = x.strides[d] * slice.step[d];
  }
  return moved(name, out, offset);
}

Result<Assembly> SliceAxesAssign::assembly(std::span<const InputSpec> in) const {
  const Shape& x = in[0].shape;
  if (auto ok = check_slice(name, slice, x); !ok) return tl::unexpected(ok.error());
  if (in[1].shape != slice.extent)
    return invalid(name, "the slice has shape {}, the values {}", to_string(slice.extent),
                   to_string(in[1].shape));
  if (in[1].dtype != in[0].dtype)
    return invalid(name, "values are {}, the tensor is {}", planck::name(in[1].dtype),
                   planck::name(in[0].dtype));
  return Assembly{in[0].dtype, x, std::nullopt, {{0, whole(x)}, {1, slice}}};
}

Result<Assembly> SliceAssign::assembly(std::span<const InputSpec> in) const {
  const Shape& x = in[0].shape;
  auto d = checked_axis(name, slice.axis, x.rank());
  if (!d) return tl::unexpected(d.error());
  if (slice.step == 0) return invalid(name, "step is 0");
  const SliceAxis::Span s = slice.span(x[*d]);
  Slice onto = whole(x);
  onto.start[*d] = s.first;
  onto.extent[*d] = s.count;
  onto.step[*d] = s.step;
  if (in[1].shape != onto.extent)
    return invalid(name, "the slice has shape {}, the values {}", to_string(onto.extent),
                   to_string(in[1].shape));
  if (in[1].dtype != in[0].dtype)
    return invalid(name, "values are {}, the tensor is {}", planck::name(in[1].dtype),
                   planck::name(in[0].dtype));
  return Assembly{in[0].dtype, x, std::nullopt, {{0, whole(x)}, {1, onto}}};
}

}  // namespace planck
