#include "planck/ops/quantize/quantize.scheme.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "planck/core/refuse.h"
#include "planck/ops/quantize/quantize.problem.h"

namespace planck {

namespace {

constexpr std::string_view kGranularities[] = {"per_tensor", "per_channel", "per_token",
                                               "per_group"};

template <class... A>
tl::unexpected<Error> invalid(std::string_view op, fmt::format_string<A...> text, A&&... a) {
  return fail(ErrorCode::invalid_problem,
              fmt::format("{}: {}", op, fmt::format(text, std::forward<A>(a)...)));
}

// The next word of a text, which loses it.
std::string_view next_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}
template <class T>
bool read_number(std::string_view word, std::string_view before, T& number) {
  if (!word.starts_with(before)) return false;
  word.remove_prefix(before.size());
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), number);
  return status == std::errc() && end == word.data() + word.size();
}

std::string_view granularity(const QuantScheme& s) {
  return kGranularities[static_cast<std::size_t>(s.granularity)];
}

}  // namespace

std::string to_string(const QuantScheme& s) {
  std::string groups(granularity(s));
  if (s.granularity == Granularity::per_channel) groups += fmt::format(" axis={}", s.axis);
  if (s.granularity == Granularity::per_group) groups += fmt::format(" group={}", s.group);
  return fmt::format("{} {} {}..{} {}", groups, name(s.dtype), s.lowest(), s.highest(),
                     s.math == QuantMath::divide ? "divide" : "reciprocal");
}

Result<QuantScheme> parse_scheme(std::string_view text) {
  std::string_view rest = text;
  const auto wrong = [&] { return invalid("scheme", "\"{}\" is no scheme", text); };
  QuantScheme s;
  const std::string_view groups = next_word(rest);
  bool known = false;
  for (std::size_t g = 0; g < std::size(kGranularities); ++g)
    if (kGranularities[g] == groups) {
      s.granularity = static_cast<Granularity>(g);
      known = true;
    }
  if (!known) return wrong();
  if (s.granularity == Granularity::per_channel && !read_number(next_word(rest), "axis=", s.axis))
    return wrong();
  if (s.granularity == Granularity::per_group && !read_number(next_word(rest), "group=", s.group))
    return wrong();
  const auto dtype = parse_dtype(next_word(rest));
  if (!dtype || !is_quantized(*dtype)) return wrong();
  s.dtype = *dtype;
  const std::string_view range = next_word(rest);
  const std::size_t dots = range.find("..");
  IntRange ends{};
  if (dots == range.npos || !read_number(range.substr(0, dots), "", ends.lowest) ||
      !read_number(range.substr(dots + 2), "", ends.highest))
    return wrong();
  s.range = ends;
  const std::string_view math = next_word(rest);
  if ((math != "divide" && math != "reciprocal") || !rest.empty()) return wrong();
  s.math = math == "divide" ? QuantMath::divide : QuantMath::reciprocal;
  return s;
}

QuantScheme with_axis_from_front(const QuantScheme& scheme, const Shape& shape) {
  QuantScheme s = scheme;
  if (s.granularity == Granularity::per_channel && s.axis < 0) s.axis += shape.rank();
  return s;
}

Result<void> check_parts(const QuantScheme& scheme, const QuantizedParts& parts) {
  if (parts.values_dtype != scheme.dtype)
    return invalid("quantized", "values are {}, the scheme says {}", name(parts.values_dtype),
                   name(scheme.dtype));
  if (parts.zero_point_dtype != Dtype::i32)
    return invalid("quantized", "zero_point is {}, must be i32", name(parts.zero_point_dtype));
  const QuantProblem problem =
      scheme.problem(QuantKind::dequantize, parts.scale_dtype, parts.values);
  if (auto ok = problem.check(); !ok) return ok;
  const std::int64_t groups = numel(problem.group_shape());
  if (numel(parts.scale) == groups && numel(parts.zero_point) == groups) return {};
  const bool scale = numel(parts.scale) != groups;
  return invalid("quantized", "{} has {} elements, {}", scale ? "scale" : "zero_point",
                 numel(scale ? parts.scale : parts.zero_point),
                 problem.specs()[quant_operand::Dequantize::scale].count_rule);
}

Result<QuantScheme> reshaped(const QuantScheme& scheme, const Shape& from, const Shape& to) {
  QuantScheme s = scheme;
  const auto apart = [&](std::string_view what) {
    return invalid("reshape", "{} as {} would cut the groups of a {} tensor apart: {}",
                   to_string(from), to_string(to), granularity(s), what);
  };
  switch (s.granularity) {
    case Granularity::per_tensor:
      return s;
    case Granularity::per_channel: {
      std::int64_t before = 1, so_far = 1;
      for (int d = 0; d < s.axis; ++d) before *= from[d];
      for (int d = 0; d < to.rank(); so_far *= to[d++])
        if (so_far == before && to[d] == from[s.axis]) {
          s.axis = d;
          return s;
        }
      return apart(fmt::format("axis {} must stay an axis of its own", s.axis));
    }
    case Granularity::per_token:
      if (to.rank() > 0 && to[to.rank() - 1] == from[from.rank() - 1]) return s;
      return apart("the last extent must stay");
    case Granularity::per_group:
      if (to.rank() > 0 && to[to.rank() - 1] % s.group == 0) return s;
      return apart(fmt::format("the last extent must be a multiple of {}", s.group));
  }
  return s;
}

Result<MovedGroups> permuted(const QuantScheme& scheme, const Shape& shape, const Extents& axes) {
  MovedGroups moved{scheme};
  const int last = shape.rank() - 1;
  switch (scheme.granularity) {
    case Granularity::per_tensor:
      return moved;
    case Granularity::per_channel:
      for (int d = 0; d <= last; ++d)
        if (axes[d] == scheme.axis) moved.scheme.axis = d;
      return moved;
    case Granularity::per_token:
    case Granularity::per_group:
      break;
  }
  if (axes[last] != last)
    return invalid("permute",
                   "the groups of a {} tensor lie along the last axis, which axes {} move",
                   granularity(scheme), to_string(axes));
  moved.permutation = axes;
  if (scheme.granularity == Granularity::per_token) {
    moved.permutation = Extents();
    for (int d = 0; d < last; ++d) moved.permutation->push_back(axes[d]);
  }
  return moved;
}

Result<MovedGroups> sliced(const QuantScheme& scheme, const Shape& shape, int axis,
                           std::int64_t first, std::int64_t count, std::int64_t step) {
  MovedGroups moved{scheme};
  const int last = shape.rank() - 1;
  if (scheme.granularity == Granularity::per_tensor) return moved;
  if (scheme.granularity == Granularity::per_channel) {
    if (axis == scheme.axis) moved.slice = MovedGroups::Slice{0, first, count, step};
    return moved;
  }
  if (axis != last) {
    moved.slice = MovedGroups::Slice{axis, first, count, step};
    return moved;
  }
  if (scheme.granularity == Granularity::per_token) return moved;
  if (step != 1 || first % scheme.group != 0 || count % scheme.group != 0)
    return invalid("slice",
                   "{} elements from {} by {} of the last axis would cut groups of {} apart", count,
                   first, step, scheme.group);
  moved.slice = MovedGroups::Slice{axis, first / scheme.group, count / scheme.group, 1};
  return moved;
}

MovedGroups expanded(const QuantScheme& scheme, const Shape& from, const Shape& to) {
  MovedGroups moved{scheme};
  if (scheme.granularity == Granularity::per_tensor) return moved;
  if (scheme.granularity == Granularity::per_channel) moved.scheme.axis += to.rank() - from.rank();
  if (const Shape wide = moved.scheme.group_shape(to); wide != scheme.group_shape(from))
    moved.wide = wide;
  return moved;
}

std::uint32_t flipped_groups(const QuantScheme& scheme, const Shape& shape, std::uint32_t axes) {
  switch (scheme.granularity) {
    case Granularity::per_tensor:
      return 0;
    case Granularity::per_channel:
      return axes >> scheme.axis & 1u;
    case Granularity::per_token:
      return axes & ~(1u << (shape.rank() - 1));
    case Granularity::per_group:
      return axes;
  }
  return axes;
}

Result<JoinedGroups> joined(const QuantScheme& scheme, const Shape& shape, int axis) {
  if (is_packed(scheme.dtype))
    return fail(ErrorCode::unsupported,
                fmt::format("cat: values are {}, two to a byte, must be s8 or u8: dequantize them "
                            "first",
                            name(scheme.dtype)));
  JoinedGroups found{scheme, axis};
  switch (scheme.granularity) {
    case Granularity::per_tensor:
      found.scheme.granularity = Granularity::per_channel;
      found.scheme.axis = axis;
      found.axis = 0;
      break;
    case Granularity::per_channel:
      if (axis != scheme.axis)
        return invalid("cat",
                       "along axis {} a channel would have a scale from each tensor: per_channel "
                       "axis={} tensors follow each other along axis {}",
                       axis, scheme.axis, scheme.axis);
      found.axis = 0;
      break;
    case Granularity::per_token:
      if (axis == shape.rank() - 1)
        return invalid("cat",
                       "along axis {}, the last, a token would have a scale from each tensor: "
                       "per_token tensors follow each other along the others",
                       axis);
      break;
    case Granularity::per_group:
      break;
  }
  return found;
}

Result<void> check_joined(std::size_t number, const QuantScheme& scheme, Dtype scale,
                          const QuantScheme& first, Dtype first_scale) {
  if (!(scheme == first))
    return invalid("cat", "tensor {} is quantized {}, the first {}", number, to_string(scheme),
                   to_string(first));
  if (scale != first_scale)
    return invalid("cat", "the scale of tensor {} is {}, that of the first {}", number, name(scale),
                   name(first_scale));
  return {};
}

Result<FactorGroups> factor_groups(const QuantScheme& a, const Shape& shape_a, const QuantScheme& b,
                                   const Shape& shape_b) {
  constexpr std::string_view kOp = "q_matmul";
  if (shape_a.rank() < 2 || shape_b.rank() < 2)
    return invalid(kOp, "shapes {} and {}: both need rank 2 or more", to_string(shape_a),
                   to_string(shape_b));
  for (const auto& [which, scheme] : {std::pair{"a", &a}, std::pair{"b", &b}})
    if (is_packed(scheme->dtype))
      return fail(ErrorCode::unsupported, fmt::format("{}: {} is {}, both must be s8 or u8", kOp,
                                                      which, name(scheme->dtype)));
  FactorGroups found{{1}, {1}};
  const int last = shape_b.rank() - 1;
  if (a.granularity == Granularity::per_token) {
    found.rows = shape_a;
    found.rows[shape_a.rank() - 1] = 1;
  } else if (a.granularity != Granularity::per_tensor) {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: a is {}, must be per_tensor or per_token", kOp, granularity(a)));
  }
  if (b.granularity == Granularity::per_channel && b.axis == last) {
    found.columns = {shape_b[last]};
  } else if (b.granularity != Granularity::per_tensor) {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: b is {}, must be per_tensor or per_channel of its last axis, {}",
                            kOp, to_string(b), last));
  }
  return found;
}

void check_zero_points(std::string_view op, std::span<const std::int32_t> zero_points) {
  constexpr std::int32_t kMost = 1 << 22;
  for (std::int32_t z : zero_points)
    if (z < -kMost || z > kMost)
      refuse(ErrorCode::unsupported, "{}: a zero point is {}, sums are exact up to {}",
             {op, std::int64_t{z}, std::int64_t{kMost}});
}

}  // namespace planck
