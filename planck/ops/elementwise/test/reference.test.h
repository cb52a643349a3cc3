// Naive values of the elementwise ops, one line each: what the family's test and the Reference
// backend of tests/ hold the library to. The C library in long double; nothing is shared with the
// library. Basic arithmetic is done in f64, where it is rounded once.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>

namespace planck::test {

using Wide = long double;

// Of the inputs in the order of the op's operands, and of its scalars s and t as the compute type
// has them. Those that an op does not have are 0.
using ElementwiseReference = Wide (*)(Wide x, Wide b, Wide c, Wide s, Wide t);

inline double f64(Wide x) { return static_cast<double>(x); }

inline std::int64_t whole(Wide x) { return static_cast<std::int64_t>(x); }

inline Wide naive_silu(Wide x) {
  if (std::isinf(x)) return x < 0 ? -0.0L : x;
  return x < 0 ? x * std::exp(x) / (1 + std::exp(x)) : x / (1 + std::exp(-x));
}
inline Wide naive_gelu(Wide x) {
  if (std::isinf(x)) return x < 0 ? -0.0L : x;
  // erfc is steep: what x / sqrt(2) loses in rounding is put back.
  const Wide root = std::sqrt(0.5L), h = -x * root;
  const Wide rest = std::fma(-x, root, -h) - x * (0.5L - std::fma(root, root, 0.0L)) / (2 * root);
  return 0.5L * x * (std::erfc(h) - rest * 2 / std::sqrt(std::acos(-1.0L)) * std::exp(-h * h));
}
inline Wide naive_gelu_slope(Wide x) {
  const Wide density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0L));
  return (1 + std::erf(x * std::sqrt(0.5L))) / 2 + x * density;
}
// Sums whose terms may cancel: their errors are relative to the terms.
inline bool cancels(std::string_view op) { return op == "gelu_backward"; }
inline Wide naive_clamp(Wide x, Wide lowest, Wide highest) {
  const Wide y = x < lowest ? lowest : x;
  return y > highest ? highest : y;
}
inline Wide choice(Wide a, Wide b, bool first) {
  return a != a || b != b ? static_cast<Wide>(NAN) : first ? a : b;
}

// By the name of the op; the kinds of cast are told apart.
inline const std::map<std::string_view, ElementwiseReference>& elementwise_references() {
#define PLANCK_VALUE(...)                                                       \
  []([[maybe_unused]] Wide x, [[maybe_unused]] Wide b, [[maybe_unused]] Wide c, \
     [[maybe_unused]] Wide s, [[maybe_unused]] Wide t) -> Wide { return __VA_ARGS__; }
  static const std::map<std::string_view, ElementwiseReference> all = {
      {"neg", PLANCK_VALUE(-x)},
      {"abs", PLANCK_VALUE(std::fabs(x))},
      {"sign", PLANCK_VALUE(x > 0    ? 1
                            : x < 0  ? -1
                            : x == 0 ? 0
                                     : x)},
      {"square", PLANCK_VALUE(f64(x) * f64(x))},
      {"sqrt", PLANCK_VALUE(std::sqrt(f64(x)))},
      {"rsqrt", PLANCK_VALUE(1 / std::sqrt(x))},
      {"reciprocal", PLANCK_VALUE(1 / f64(x))},
      {"exp", PLANCK_VALUE(std::exp(x))},
      {"expm1", PLANCK_VALUE(std::expm1(x))},
      {"log", PLANCK_VALUE(std::log(x))},
      {"log1p", PLANCK_VALUE(std::log1p(x))},
      {"sin", PLANCK_VALUE(std::sin(x))},
      {"cos", PLANCK_VALUE(std::cos(x))},
      {"tanh", PLANCK_VALUE(std::tanh(x))},
      {"sigmoid", PLANCK_VALUE(x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)))},
      {"relu", PLANCK_VALUE(x <= 0 ? 0 : x)},
      {"leaky_relu", PLANCK_VALUE(x > 0 ? f64(x) : f64(s) * f64(x))},
      {"gelu", PLANCK_VALUE(naive_gelu(x))},
      {"silu", PLANCK_VALUE(naive_silu(x))},
      {"softplus",
       PLANCK_VALUE(x != x ? x : (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))))},
      {"softsign", PLANCK_VALUE(std::isinf(x) ? std::copysign(1, x) : x / (1 + std::fabs(x)))},
      {"erf", PLANCK_VALUE(std::erf(x))},
      {"floor", PLANCK_VALUE(std::floor(x))},
      {"ceil", PLANCK_VALUE(std::ceil(x))},
      {"round", PLANCK_VALUE(std::nearbyint(x))},
      {"trunc", PLANCK_VALUE(std::trunc(x))},
      {"clamp", PLANCK_VALUE(naive_clamp(x, s, t))},
      {"add_scalar", PLANCK_VALUE(f64(x) + f64(s))},
      {"mul_scalar", PLANCK_VALUE(f64(x) * f64(s))},
      {"div_scalar", PLANCK_VALUE(f64(x) / f64(s))},
      {"rdiv_scalar", PLANCK_VALUE(f64(s) / f64(x))},
      {"pow_scalar", PLANCK_VALUE(std::pow(x, s))},
      {"add", PLANCK_VALUE(f64(x) + f64(b))},
      {"sub", PLANCK_VALUE(f64(x) - f64(b))},
      {"mul", PLANCK_VALUE(f64(x) * f64(b))},
      {"div", PLANCK_VALUE(f64(x) / f64(b))},
      {"maximum", PLANCK_VALUE(choice(x, b, x > b))},
      {"minimum", PLANCK_VALUE(choice(x, b, x < b))},
      {"pow", PLANCK_VALUE(std::pow(x, b))},
      {"atan2", PLANCK_VALUE(std::atan2(x, b))},
      {"gelu_backward", PLANCK_VALUE(x * naive_gelu_slope(b))},
      {"relu_backward", PLANCK_VALUE(b > 0 ? x : 0)},
      {"eq", PLANCK_VALUE(x == b)},
      {"ne", PLANCK_VALUE(x != b)},
      {"lt", PLANCK_VALUE(x < b)},
      {"le", PLANCK_VALUE(x <= b)},
      {"gt", PLANCK_VALUE(x > b)},
      {"ge", PLANCK_VALUE(x >= b)},
      {"logical_and", PLANCK_VALUE(x != 0 && b != 0)},
      {"logical_or", PLANCK_VALUE(x != 0 || b != 0)},
      {"logical_xor", PLANCK_VALUE((x != 0) != (b != 0))},
      {"logical_not", PLANCK_VALUE(x == 0)},
      {"bitwise_and", PLANCK_VALUE(whole(x) & whole(b))},
      {"bitwise_or", PLANCK_VALUE(whole(x) | whole(b))},
      {"bitwise_xor", PLANCK_VALUE(whole(x) ^ whole(b))},
      {"bitwise_not", PLANCK_VALUE(-whole(x) - 1)},
      {"shift_left", PLANCK_VALUE(whole(x) * (std::int64_t{1} << whole(b)))},
      {"shift_right", PLANCK_VALUE(std::floor(f64(x) / f64(std::int64_t{1} << whole(b))))},
      {"where", PLANCK_VALUE(x != 0 ? b : c)},
      {"mask_fill", PLANCK_VALUE(b != 0 ? s : x)},
      {"to_float", PLANCK_VALUE(x)},
      {"to_int", PLANCK_VALUE(x != x ? 0 : std::trunc(x))},
      {"to_bool", PLANCK_VALUE(x != 0)},
  };
#undef PLANCK_VALUE
  return all;
}

}  // namespace planck::test
