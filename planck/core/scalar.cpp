#include "planck/core/scalar.h"

#include <fmt/format.h>

#include <cmath>

namespace planck {

namespace {

struct Ends {
  std::int64_t lowest, highest;
};
Ends ends_of(Dtype t) {
  if (t == Dtype::i64) return {INT64_MIN, INT64_MAX};
  if (t == Dtype::boolean) return {0, 1};
  const IntRange range = int_range(t);
  return {range.lowest, range.highest};
}

}  // namespace

std::string Scalar::text() const {
  if (form == Form::floating) return fmt::format("{}", number);
  return is_whole() ? fmt::format("{}", whole) : fmt::format("{:.0f}", number);
}

bool holds(Dtype dtype, const Scalar& value) {
  if (is_float(dtype))
    return !std::isfinite(value.number) || visit_float(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      return std::isfinite(static_cast<double>(T(value.number)));
    });
  const Ends ends = ends_of(dtype);
  return value.is_whole() && value.whole >= ends.lowest && value.whole <= ends.highest;
}

Result<void> check_scalar(std::string_view op, Dtype dtype, const Scalar& value) {
  if (holds(dtype, value)) return {};
  if (is_float(dtype))
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: {} is too large for {}", op, value.text(), name(dtype)));
  const bool outside = value.number >= 0x1p63 || value.number < -0x1p63;
  if (value.form == Scalar::Form::floating && !value.is_whole() && !outside)
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {} is no integer, the tensor is {}",
                                                        op, value.text(), name(dtype)));
  const Ends ends = ends_of(dtype);
  return fail(ErrorCode::invalid_problem,
              fmt::format("{}: {} does not fit {}, which goes from {} to {}", op, value.text(),
                          name(dtype), ends.lowest, ends.highest));
}

}  // namespace planck
