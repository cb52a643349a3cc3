// A number given to an op: what it was written as, so that its value is kept or refused.
//
//   x * 0.5    x - 1u    x + (1ull << 63)    full<Cpu, IntKind>({4}, -1)
//
// A float tensor rounds it once to the type it computes in (f64, or f32 for narrower floats): a
// factor of an f16 tensor may be beyond f16. What would become infinite is refused. An integer
// tensor takes whole numbers that its dtype holds, 2.0 as well as 2; it refuses 0.5, NaN and what
// does not fit. Truth values are 0 and 1.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "planck/core/dtype.h"
#include "planck/core/result.h"

namespace planck {

struct Scalar {
  enum class Form : std::uint8_t { integer, above_i64, floating };  // above: unsigned, >= 2^63

  double number = 0;       // the value, rounded to f64
  std::int64_t whole = 0;  // the value, truncated and held between the ends; 0 for NaN
  Form form = Form::integer;

  constexpr Scalar() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Scalar(T v) : number(static_cast<double>(v)) {
    if constexpr (std::is_floating_point_v<T>) {
      form = Form::floating;
      whole = truncated(number);
    } else if constexpr (std::is_signed_v<T> || sizeof(T) < sizeof(std::int64_t)) {
      whole = static_cast<std::int64_t>(v);
    } else if (v <= static_cast<T>(INT64_MAX)) {
      whole = static_cast<std::int64_t>(v);
    } else {
      form = Form::above_i64;
      whole = INT64_MAX;
    }
  }

  // Whether `whole` is the value.
  constexpr bool is_whole() const {
    return form == Form::integer || (form == Form::floating && number >= -0x1p63 &&
                                     number < 0x1p63 && static_cast<double>(whole) == number);
  }
  // −value, of integers that have an opposite; of others as a float.
  constexpr Scalar negated() const {
    return form == Form::integer && whole != INT64_MIN ? Scalar(-whole) : Scalar(-number);
  }
  std::string text() const;

  // The same results on every tensor: −0 is not 0, 2 is 2.0.
  friend constexpr bool operator==(const Scalar& a, const Scalar& b) {
    return std::bit_cast<std::uint64_t>(a.number) == std::bit_cast<std::uint64_t>(b.number) &&
           a.whole == b.whole && a.is_whole() == b.is_whole();
  }

 private:
  static constexpr std::int64_t truncated(double v) {
    if (v != v) return 0;
    return v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : static_cast<std::int64_t>(v);
  }
};

// What scalars beside a tensor of this dtype are rounded to.
constexpr Dtype scalar_dtype(Dtype t) { return is_float(t) ? compute_dtype(t) : t; }
// Whether a dtype holds the value: rounded, of floats, to a number where it is one; exactly, of
// integers.
bool holds(Dtype dtype, const Scalar& value);
// The same as an error: "mul_scalar: 0.5 is no integer, the tensor is i64".
[[nodiscard]] Result<void> check_scalar(std::string_view op, Dtype dtype, const Scalar& value);

}  // namespace planck
