// pow(x, y) = e^(y log|x|), with the sign of an odd power of a negative x.
//
// The logarithm is kept in two parts, high + low, right to about 2^-36 (f64: 2^-65) of itself, for
// y may multiply its error by 88 (709):
//
//   |x| = 2^k m;  s = (m − 1) / (m + 1);  log|x| = k ln 2 + 2s + (2/3) s³ + s⁵ Q(s²)
//
// where 2s and (2/3) s³ have two parts each. Special values are those of C99: x^0 = 1^y = 1 even
// for NaN, a negative x with a y that is no integer is NaN, and the signs of 0 and Inf follow odd
// y.
#pragma once

#include "planck/math/exp.h"
#include "planck/math/log.h"

namespace planck::math {

namespace pow_detail {

// Q: errors 2^-30.0, 2^-58.9.
PLANCK_HD constexpr Terms<4> terms() {
  return {{0x1.99999ap-2f, 0x1.24928ep-2f, 0x1.c6c08ep-3f, 0x1.879e0ap-3f}};
}
PLANCK_HD float tail(float z) { return polynomial(z, terms()); }
PLANCK_HD double tail(double z) {
  return polynomial(z, 0x1.999999999999ap-2, 0x1.2492492492523p-2, 0x1.c71c71c6ea40bp-3,
                    0x1.745d177ae23bap-3, 0x1.3b1395b563727p-3, 0x1.1118cd719f396p-3,
                    0x1.df7bb87fe2441p-4, 0x1.e038b18a481f9p-4);
}
template <class T>
constexpr T kTwoThirds = sizeof(T) == 4 ? T(0x1.555556p-1f) : T(0x1.5555555555555p-1);
template <class T>
constexpr T kTwoThirdsRest = sizeof(T) == 4 ? T(-0x1.555556p-26f) : T(0x1.5555555555555p-55);

template <class T>
struct Pair {
  T high, low;
};

// log of a positive finite number. kNormal: which is not subnormal.
template <bool kNormal = false, class T>
PLANCK_HD Pair<T> log_pair(T x) {
  using U = UnsignedOf<T>;
  using L = log_detail::Constants<T>;
  constexpr int kMantissa = Layout<T>::kMantissa;
  constexpr T kSmallestNormal = sizeof(T) == 4 ? T(0x1p-126f) : T(0x1p-1022);
  constexpr T kUp = sizeof(T) == 4 ? T(0x1p23f) : T(0x1p52);
  const bool subnormal = !kNormal && x < kSmallestNormal;
  const T normal = subnormal ? x * kUp : x;
  const SignedOf<T> e = log_detail::exponent_of(normal);
  const T m = from_bits(bits_of(normal) - (static_cast<U>(e) << kMantissa));
  const T k = small_integer<T>(subnormal ? e - kMantissa : e);

  const T f = m - T(1), d = m + T(1), d_low = m - (d - T(1)), inverse = reciprocal_of(d);
  const T s = f * inverse, s_low = inverse * (fma_of(-s, d, f) - s * d_low);
  const T z = s * s, z_low = fma_of(s, s, -z) + T(2) * s * s_low;
  const T c = z * s, c_low = fma_of(z, s, -c) + (z * s_low + z_low * s);  // s³
  const T b = c * kTwoThirds<T>;
  const T b_low = fma_of(c, kTwoThirds<T>, -b) + (c * kTwoThirdsRest<T> + c_low * kTwoThirds<T>);

  const T whole = k * L::kHigh, a = T(2) * s;
  const T sum = whole + a, sum_low = (whole - sum) + a;
  const T all = sum + b, all_low = (sum - all) + b;
  const T low =
      (sum_low + all_low) + (fma_of(T(2), s_low, b_low) + fma_of(c * z, tail(z), k * L::kLow));
  const T high = all + low;
  return {high, (all - high) + low};
}

template <class T>
PLANCK_HD bool is_integer(T y) {
  constexpr T kWhole = sizeof(T) == 4 ? T(0x1p23f) : T(0x1p52);
  const T a = abs_of(y);
  return (a >= kWhole) | ((a + kWhole) - kWhole == a);
}

}  // namespace pow_detail

// |x|^y of usual arguments, a normal x and a finite y, for which there is nothing to choose; right
// where the size of y log|x| is at most kNear, so that the result is normal too. Packs of numbers
// ask once whether all are.
namespace usual {

inline constexpr float kSmallest = 0x1p-126f, kNear = 87;
struct Power {
  float size, exponent;  // |x|^y, y log|x|
};
PLANCK_HD Power power_of(float x, float y) {
  const auto log = pow_detail::log_pair<true>(abs_of(x));
  const float p = y * log.high, rest = fma_of(y, log.high, -p) + y * log.low;
  const auto parts = exp_detail::parts_of(p);
  const float r = parts.r + rest, factor = fma_of(r * r, exp_detail::tail(r), r) + 1.0f;
  return {from_bits(bits_of(factor) +
                    (static_cast<std::uint32_t>(parts.n) << Layout<float>::kMantissa)),
          p};
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

template <class T>
PLANCK_HD T pow(T x, T y) {
  using namespace pow_detail;
  const T infinity = infinity_of(x), a = abs_of(x);
  const bool ordinary = (a > T(0)) & (a < infinity);
  const Pair<T> log = log_pair(ordinary ? a : T(2));
  T high = log.high;
  high = a == infinity ? infinity : high;
  high = a == T(0) ? -infinity : high;
  const T p = y * high;
  const bool bounded = abs_of(p) < T(4096);  // past that the rest does not matter, or is NaN
  const T rest = bounded ? fma_of(y, log.high, -p) + y * log.low : T(0);
  T result = exp_detail::exp_sum(p, ordinary ? rest : T(0));
  result = a == T(1) ? T(1) : result;
  const bool whole = is_integer(y);
  // The sign of an odd power: that of x, all of the other bits cleared where y is not odd.
  const UnsignedOf<T> sign = bits_of(x) >> (sizeof(T) * 8 - 1) << (sizeof(T) * 8 - 1);
  result = from_bits(bits_of(result) | (whole & !is_integer(T(0.5) * y) ? sign : 0));
  result = (x < T(0)) & (x > -infinity) & !whole ? nan_of(x) : result;
  result = (x != x) | (y != y) ? nan_of(x) : result;
  return (x == T(1)) | (y == T(0)) ? T(1) : canonical(result);
}

}  // namespace planck::math
