#include "planck/ops/elementwise/sequences.h"

#include <cmath>

#include "planck/core/exception.h"
#include "planck/core/refuse.h"
#include "planck/core/scalar.h"

namespace planck {

std::int64_t arange_count(std::int64_t start, std::int64_t stop, std::int64_t step, Dtype dtype) {
  if (step == 0) refuse("arange: the step is 0", {});
  if (dtype != Dtype::i64 && dtype != Dtype::i32)
    refuse("arange: dtype is {}, integers are i64 or i32", {dtype});
  const bool up = step > 0;
  if (up ? stop <= start : stop >= start) return 0;
  const auto a = static_cast<std::uint64_t>(start), b = static_cast<std::uint64_t>(stop);
  const std::uint64_t distance = up ? b - a : a - b;
  const std::uint64_t stride =
      up ? static_cast<std::uint64_t>(step) : std::uint64_t{0} - static_cast<std::uint64_t>(step);
  const std::uint64_t count = (distance - 1) / stride + 1;
  if (count > INT64_MAX / 8)
    refuse("arange: from {} to {} by {} are more elements than memory has", {start, stop, step});
  const std::uint64_t last = up ? a + (count - 1) * stride : a - (count - 1) * stride;
  value_or_throw(check_scalar("arange", dtype, start));
  value_or_throw(check_scalar("arange", dtype, static_cast<std::int64_t>(last)));
  return static_cast<std::int64_t>(count);
}

std::int64_t arange_count(double start, double stop, double step) {
  if (!std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step) || step == 0)
    refuse("arange: start {}, stop {} and step {} must be finite, and the step not 0",
           {start, stop, step});
  const double count = std::ceil((stop - start) / step);
  if (!(count < 0x1p60))
    refuse("arange: from {} to {} by {} are more elements than memory has", {start, stop, step});
  return count > 0 ? static_cast<std::int64_t>(count) : 0;
}

double linspace_step(double start, double stop, std::int64_t count) {
  if (count < 0) refuse("linspace: {} elements", {count});
  const double distance = stop - start;
  if (!std::isfinite(distance))
    refuse("linspace: from {} to {}: both ends and their distance must be finite", {start, stop});
  return count < 2 ? 0 : distance / static_cast<double>(count - 1);
}

double randint_range(std::int64_t low, std::int64_t high, Dtype dtype) {
  if (low >= high)
    refuse("randint: low is {}, high {}: there is no integer in between", {low, high});
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (range > std::uint64_t{1} << 53)
    refuse("randint: from {} to {} are more than 2^53 integers", {low, high});
  value_or_throw(check_scalar("randint", dtype, low));
  value_or_throw(check_scalar("randint", dtype, high - 1));
  return static_cast<double>(range);
}

}  // namespace planck
