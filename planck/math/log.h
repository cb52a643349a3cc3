// log and log1p.
//
//   x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2)
//   f32: log(1 + f) = f − f²/2 + f³ P(f)
//   f64: log(1 + f) = f − (f²/2 − s (f²/2 + s² R(s²))),  s = f / (2 + f)
//
// log(±0) = −Inf, log of a negative number is NaN, log(Inf) = Inf. log1p finds f from x itself, as
// 2^-k x + (2^-k − 1) rounded once, so that nothing is lost where x is small; log1p(−1) = −Inf.
#pragma once

#include "planck/math/float_bits.h"

namespace planck::math {

namespace log_detail {

template <class T>
struct Constants;
template <>
struct Constants<float> {
  static constexpr float kHigh = 0x1.62e4p-1f, kLow = 0x1.7f7d1cp-20f;
  static constexpr std::uint32_t kRootHalf = 0x3f3504f3u;  // bits of sqrt(1/2)
};
template <>
struct Constants<double> {
  static constexpr double kHigh = 0x1.62e42fefa4p-1, kLow = -0x1.8432a1b0e2634p-43;
  static constexpr std::uint64_t kRootHalf = 0x3fe6a09e667f3bcdu;
};

// log(1 + f) + k ln 2. The errors of the polynomials are 2^-27.3 and 2^-58.1.
PLANCK_HD constexpr Terms<9> terms() {
  return {{-0.5f, 0x1.55554ap-2f, -0x1.000216p-2f, 0x1.99a592p-3f, -0x1.547abap-3f, 0x1.226f5ep-3f,
           -0x1.0cce4p-3f, 0x1.07c4bcp-3f, -0x1.422dp-4f}};
}
}  // namespace log_detail

#include "planck/math/formulas/log.h"

namespace log_detail {

PLANCK_HD float assembled(float f, float k) { return assembled_log(f, k, 1.0f); }
PLANCK_HD double assembled(double f, double k) {
  using L = Constants<double>;
  const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  const double r = z * polynomial(z, 0x1.5555555555572p-1, 0x1.9999999988a3dp-2,
                                  0x1.2492493b34477p-2, 0x1.c71c56efabbcdp-3, 0x1.746553ddf9e93p-3,
                                  0x1.39b7add20e093p-3, 0x1.2e364bc5f78c3p-3);
  const double y = fma_of(s, half + r, k * L::kLow) - half;
  return fma_of(k, L::kHigh, f + y);
}

// k for a positive normal x. The shift is one of unsigned numbers: AVX2 has no other for 64 bits.
template <class T>
PLANCK_HD SignedOf<T> exponent_of(T x) {
  using U = UnsignedOf<T>;
  constexpr U kOffset = U{Layout<T>::kBias} + 1;
  const U above = bits_of(x) - Constants<T>::kRootHalf + (kOffset << Layout<T>::kMantissa);
  return static_cast<SignedOf<T>>((above >> Layout<T>::kMantissa) - kOffset);
}

}  // namespace log_detail

template <class T>
PLANCK_HD T log(T x) {
  using U = UnsignedOf<T>;
  constexpr int kMantissa = Layout<T>::kMantissa;
  constexpr T kSmallestNormal = sizeof(T) == 4 ? T(0x1p-126f) : T(0x1p-1022);
  constexpr T kUp = sizeof(T) == 4 ? T(0x1p23f) : T(0x1p52);
  const bool subnormal = x < kSmallestNormal;
  const T normal = subnormal ? x * kUp : x;
  const SignedOf<T> k = log_detail::exponent_of(normal);
  const T m = from_bits(bits_of(normal) - (static_cast<U>(k) << kMantissa));
  T y = log_detail::assembled(m - T(1), small_integer<T>(subnormal ? k - kMantissa : k));
  y = x == infinity_of(x) ? x : y;
  y = x > T(0) ? y : nan_of(x);
  return x == T(0) ? -infinity_of(x) : y;
}

template <class T>
PLANCK_HD T log1p(T x) {
  const T u = T(1) + x;
  const SignedOf<T> k = log_detail::exponent_of(u);
  const T scale = power_of_two<T>(2 - k) * T(0.25);  // subnormal for the largest x, and exact
  T y = log_detail::assembled(fma_of(scale, x, scale - T(1)), small_integer<T>(k));
  y = x == infinity_of(x) ? x : y;
  y = x > T(-1) ? y : nan_of(x);
  y = x == T(-1) ? -infinity_of(x) : y;
  return x == T(0) ? x : y;  // −0 is kept
}

}  // namespace planck::math
