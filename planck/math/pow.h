// pow(x, y), with the sign of an odd power of a negative x.
//
//   f32   2^(y log2|x|); the logarithm has two parts (log2.h), and y log2|x| = n + f
//   f64   e^(y log|x|); the logarithm is kept in two parts, high + low, right to about 2^-65 of
//         itself, for y may multiply its error by 709:
//         |x| = 2^k m;  s = (m − 1) / (m + 1);  log|x| = k ln 2 + 2s + (2/3) s³ + s⁵ Q(s²)
//         where 2s and (2/3) s³ have two parts each
//
// Special values are those of C99: x^0 = 1^y = 1 even for NaN, a negative x with a y that is no
// integer is NaN, and the signs of 0 and Inf follow odd y.
#pragma once

#include "planck/math/exp.h"
#include "planck/math/log.h"
#include "planck/math/log2.h"

namespace planck::math {

#include "planck/math/formulas/pow.h"

namespace pow_detail {

// Q: error 2^-58.9.
PLANCK_HD double tail(double z) {
  return polynomial(z, 0x1.999999999999ap-2, 0x1.2492492492523p-2, 0x1.c71c71c6ea40bp-3,
                    0x1.745d177ae23bap-3, 0x1.3b1395b563727p-3, 0x1.1118cd719f396p-3,
                    0x1.df7bb87fe2441p-4, 0x1.e038b18a481f9p-4);
}

struct Pair {
  double high, low;
};

// log of a positive finite number.
PLANCK_HD Pair log_pair(double x) {
  using L = log_detail::Constants<double>;
  constexpr int kMantissa = Layout<double>::kMantissa;
  constexpr double kTwoThirds = 0x1.5555555555555p-1, kTwoThirdsRest = 0x1.5555555555555p-55;
  const bool subnormal = x < 0x1p-1022;
  const double normal = subnormal ? x * 0x1p52 : x;
  const std::int64_t e = log_detail::exponent_of(normal);
  const double m = from_bits(bits_of(normal) - (static_cast<std::uint64_t>(e) << kMantissa));
  const double k = small_integer<double>(subnormal ? e - kMantissa : e);

  const double f = m - 1.0, d = m + 1.0, d_low = m - (d - 1.0), inverse = reciprocal_of(d);
  const double s = f * inverse, s_low = inverse * (fma_of(-s, d, f) - s * d_low);
  const double z = s * s, z_low = fma_of(s, s, -z) + 2.0 * s * s_low;
  const double c = z * s, c_low = fma_of(z, s, -c) + (z * s_low + z_low * s);  // s³
  const double b = c * kTwoThirds;
  const double b_low = fma_of(c, kTwoThirds, -b) + (c * kTwoThirdsRest + c_low * kTwoThirds);

  const double whole = k * L::kHigh, a = 2.0 * s;
  const double sum = whole + a, sum_low = (whole - sum) + a;
  const double all = sum + b, all_low = (sum - all) + b;
  const double low =
      (sum_low + all_low) + (fma_of(2.0, s_low, b_low) + fma_of(c * z, tail(z), k * L::kLow));
  const double high = all + low;
  return {high, (all - high) + low};
}

template <class T>
PLANCK_HD bool is_integer(T y) {
  constexpr T kWhole = sizeof(T) == 4 ? T(0x1p23f) : T(0x1p52);
  const T a = abs_of(y);
  return (a >= kWhole) | ((a + kWhole) - kWhole == a);
}

// x^y, given its size for x > 0.
template <class T>
PLANCK_HD T with_signs(T size, T x, T y) {
  T result = abs_of(x) == T(1) ? T(1) : size;
  const bool whole = is_integer(y);
  // The sign of an odd power: that of x, all of the other bits cleared where y is not odd.
  const UnsignedOf<T> sign = bits_of(x) >> (sizeof(T) * 8 - 1) << (sizeof(T) * 8 - 1);
  result = from_bits(bits_of(result) | (whole & !is_integer(T(0.5) * y) ? sign : 0));
  result = (x < T(0)) & (x > -infinity_of(x)) & !whole ? nan_of(x) : result;
  result = (x != x) | (y != y) ? nan_of(x) : result;
  return (x == T(1)) | (y == T(0)) ? T(1) : canonical(result);
}

// y log is so large, or no number, that its limit is the result; 2^±kFar is one anyway.
inline constexpr float kFar = 4096;
PLANCK_HD float limit_of(float exponent) {
  return exponent > 0.0f ? infinity_of(exponent) : exponent < 0.0f ? 0.0f : nan_of(exponent);
}

// ±Inf for a logarithm of 0 and Inf.
template <class T>
PLANCK_HD T with_special_logs(T log, T a) {
  const T high = a == infinity_of(a) ? a : log;
  return a == T(0) ? -infinity_of(a) : high;
}

}  // namespace pow_detail

// a^y, a = |x|, of usual arguments, a normal x and a finite y, for which there is nothing to
// choose; right where the size of n, the exponent, is at most kNear, so that the result is normal
// too. Packs of numbers ask once whether all are.
namespace usual {

inline constexpr std::uint32_t kBase = 0x7effffff;  // at most, of usual bases
PLANCK_HD std::uint32_t base_of(float x) { return bits_of(abs_of(x)) - 0x00800000u; }
inline constexpr float kNear = 125;
struct Power {
  float size, exponent;  // a^y, −n
};
PLANCK_HD Power assembled(float power, const Exponent<float>& e) {
  return {math::with_exponent(power, e.shifted), -e.n};
}
PLANCK_HD Power power_of(float a, float y) {
  const auto e = exponent_of(y, log2_pair(a));
  return assembled(polynomial(e.f, exp_detail::exp2_terms()), e);
}

// With the sign of an odd power; NaN for a negative x and a y that is not whole. The size of y is
// at most kEven: the last bit of its sum with 2^23 says whether it is odd.
inline constexpr float kEven = 0x1p22f;
PLANCK_HD float with_sign_of_power(float size, float x, float y) {
  const float a = abs_of(y), shifted = a + 0x1p23f;
  const float result = from_bits(bits_of(size) | (bits_of(x) & bits_of(shifted) << 31));
  return (x < 0.0f) & (shifted - 0x1p23f != a) ? nan_of(x) : result;
}

}  // namespace usual

PLANCK_HD float pow(float x, float y) {
  using namespace pow_detail;
  const float a = abs_of(x);
  const bool ordinary = (a > 0.0f) & (a < infinity_of(x)), subnormal = a < 0x1p-126f;
  const float normal = subnormal ? a * 0x1p23f : a;
  const Log2<float> log = log2_pair(ordinary ? normal : 2.0f, subnormal ? 23.0f : 0.0f);
  const float p = y * with_special_logs(log.high, a);
  const bool bounded = ordinary & (abs_of(p) < kFar);
  const float size = power_of(exponent_of(bounded ? y : 0.0f, log));
  return with_signs(bounded ? size : limit_of(p), x, y);
}

PLANCK_HD double pow(double x, double y) {
  using namespace pow_detail;
  const double a = abs_of(x);
  const bool ordinary = (a > 0.0) & (a < infinity_of(x));
  const Pair log = log_pair(ordinary ? a : 2.0);
  const double p = y * with_special_logs(log.high, a);
  const bool bounded = abs_of(p) < 4096.0;  // past that the rest does not matter, or is NaN
  const double rest = bounded ? fma_of(y, log.high, -p) + y * log.low : 0.0;
  const auto e = exp_parts(exp_bounded(p));
  return with_signs(scaled(exp_of_rest(e.r + (ordinary ? rest : 0.0)), e.n, e.shifted), x, y);
}

}  // namespace planck::math
