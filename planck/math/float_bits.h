// What elementary functions are made of: the bits of a float, fused multiply-add, polynomials and
// powers of two. Host and device, f32 and f64, no branches: loops around them vectorize.
// float_bits-inl.h has what the files of formulas/ use of it over whole vectors, under the same
// names.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "planck/core/half.h"
#include "planck/core/macros.h"

namespace planck::math {

// The layout of T: unsigned and signed integers of its width, its mantissa bits and exponent bias.
template <class T>
struct Layout;
template <>
struct Layout<float> {
  using Unsigned = std::uint32_t;
  using Signed = std::int32_t;
  static constexpr int kMantissa = 23, kBias = 127;
  // 1.5 · 2^mantissa: adding it leaves no bits for a fraction, and the integer in the low bits.
  static constexpr float kRounder = 0x1.8p23f;
};
template <>
struct Layout<double> {
  using Unsigned = std::uint64_t;
  using Signed = std::int64_t;
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kRounder = 0x1.8p52;
};
template <class T>
using UnsignedOf = typename Layout<T>::Unsigned;
template <class T>
using SignedOf = typename Layout<T>::Signed;

PLANCK_HD std::uint32_t bits_of(float x) { return half_detail::bits_of(x); }
PLANCK_HD std::uint64_t bits_of(double x) { return half_detail::bits_of(x); }
PLANCK_HD float from_bits(std::uint32_t x) { return half_detail::f32_from_bits(x); }
PLANCK_HD double from_bits(std::uint64_t x) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<long long>(x));
#else
  return std::bit_cast<double>(x);
#endif
}

// a * b + c, rounded once. The builtin is an instruction wherever the function it ends up in may
// use one.
PLANCK_HD float fma_of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PLANCK_HD double fma_of(double a, double b, double c) { return __builtin_fma(a, b, c); }
// a * b − c and c − a * b, rounded once.
template <class T>
PLANCK_HD T fms_of(T a, T b, T c) {
  return fma_of(a, b, -c);
}
template <class T>
PLANCK_HD T fnma_of(T a, T b, T c) {
  return fma_of(-a, b, c);
}
PLANCK_HD float sqrt_of(float x) { return __builtin_sqrtf(x); }
PLANCK_HD double sqrt_of(double x) { return __builtin_sqrt(x); }
PLANCK_HD float abs_of(float x) { return __builtin_fabsf(x); }
PLANCK_HD double abs_of(double x) { return __builtin_fabs(x); }
PLANCK_HD float floor_of(float x) { return __builtin_floorf(x); }
PLANCK_HD double floor_of(double x) { return __builtin_floor(x); }
PLANCK_HD float nearest_integer(float x) { return __builtin_rintf(x); }  // ties to even
PLANCK_HD double nearest_integer(double x) { return __builtin_rint(x); }
PLANCK_HD float infinity_of(float) { return __builtin_inff(); }
PLANCK_HD double infinity_of(double) { return __builtin_inf(); }
PLANCK_HD float nan_of(float) { return __builtin_nanf(""); }
PLANCK_HD double nan_of(double) { return __builtin_nan(""); }

// Every NaN that is computed becomes the quiet one without a payload: sign and payload differ
// between processors.
template <class T>
PLANCK_HD T canonical(T v) {
  return v == v ? v : nan_of(v);
}
// The result of a formula. Vectors leave NaN as it is: their loops look once for several of them.
template <class T>
PLANCK_HD T finished(T v) {
  return canonical(v);
}

// The type of N's elements. A number is its own; a vector has many.
template <class N>
using Element = N;

template <class T>
PLANCK_HD T choose(bool first, T a, T b) {
  return first ? a : b;
}
// Formulas that ask do not depend on the answer for −0 and NaN.
template <class T>
PLANCK_HD bool is_negative(T x) {
  return x < T(0);
}
template <int kBy, class U>
PLANCK_HD U shift_left(U bits) {
  return bits << kBy;
}
template <int kBy, class U>
PLANCK_HD U shift_right(U bits) {
  return bits >> kBy;
}
// A signed integer, given as bits, as a number.
PLANCK_HD float number_of(std::uint32_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits));
}
// Entry i of a table, by the lower bits of i.
template <int kEntries>
PLANCK_HD float entry_of(const float (&table)[kEntries], std::uint32_t i) {
  static_assert((kEntries & (kEntries - 1)) == 0);
  return table[i & (kEntries - 1)];
}

// The larger and the smaller of two; NaN where x is, of any kind.
PLANCK_HD float at_least(float x, float bound) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(bound));
  return y;
#else
  return x < bound ? bound : x;
#endif
}
PLANCK_HD float at_most(float x, float bound) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(bound));
  return y;
#else
  return x > bound ? bound : x;
#endif
}
PLANCK_HD double at_least(double x, double bound) { return x < bound ? bound : x; }
PLANCK_HD double at_most(double x, double bound) { return x > bound ? bound : x; }

// 1 / x, correctly rounded, for 2^-120 < x < 2^120. On the device a step from the approximation is
// enough, which has been tried for every mantissa; division would look at the range first.
PLANCK_HD float reciprocal_of(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return __builtin_fmaf(__builtin_fmaf(-x, y, 1.0f), y, y);
#else
  return 1.0f / x;
#endif
}
PLANCK_HD double reciprocal_of(double x) { return 1.0 / x; }

// |magnitude| with the sign of `sign`.
template <class T>
PLANCK_HD T with_sign(T magnitude, T sign) {
  constexpr UnsignedOf<T> kSign = UnsignedOf<T>{1} << (sizeof(T) * 8 - 1);
  return from_bits((bits_of(magnitude) & ~kSign) | (bits_of(sign) & kSign));
}

// c0 + c1 x + c2 x² + …, by fused multiply-adds from the last one on.
template <class T>
PLANCK_HD T polynomial(T, T c) {
  return c;
}
template <class T, class... Rest>
PLANCK_HD T polynomial(T x, T c, Rest... rest) {
  return fma_of(polynomial(x, rest...), x, c);
}

// The same with coefficients that formulas name.
template <class T, int kCount>
struct TermsOf {
  T c[kCount];
};
template <int kCount>
using Terms = TermsOf<float, kCount>;
template <int kCount>
using WideTerms = TermsOf<double, kCount>;
template <int k = 0, class T, int kCount>
PLANCK_HD T polynomial(T x, const TermsOf<T, kCount>& terms) {
  if constexpr (k + 1 == kCount)
    return terms.c[k];
  else
    return fma_of(polynomial<k + 1>(x, terms), x, terms.c[k]);
}

// 2^n for exponents of normal numbers; any other n gives some float, never a trap.
template <class T>
PLANCK_HD T power_of_two(SignedOf<T> n) {
  using U = UnsignedOf<T>;
  return from_bits(static_cast<U>(static_cast<U>(n) + U{Layout<T>::kBias}) << Layout<T>::kMantissa);
}

// v · 2^n in two steps, so that only a subnormal result is rounded, and that once. n may lie
// outside of the exponents of normal numbers, by as much again.
template <class T>
PLANCK_HD T scaled(T v, SignedOf<T> n) {
  using U = UnsignedOf<T>;
  const U both = static_cast<U>(n) + 2 * U{Layout<T>::kBias}, half = both >> 1;
  return v * from_bits(half << Layout<T>::kMantissa) *
         from_bits((both - half) << Layout<T>::kMantissa);
}
// n of n + kRounder; and v · 2^n, given both n and n + kRounder: vectors want the one or the other.
template <class T>
PLANCK_HD SignedOf<T> integer_of(T shifted) {
  return static_cast<SignedOf<T>>(bits_of(shifted) - bits_of(Layout<T>::kRounder));
}
template <class T>
PLANCK_HD T scaled(T v, T, T shifted) {
  return scaled(v, integer_of(shifted));
}
// The same for an n that is a number of any size: past ±200 nothing changes. 0.5 <= v < 2.
PLANCK_HD float scaled_by_number(float v, float n) {
  const float most = n > 200.0f ? 200.0f : n;
  return scaled(v, static_cast<std::int32_t>(most < -200.0f ? -200.0f : most));
}

// v · 2^n, rounded once, n being in the low bits of `up` − bias − kUp, and n + kUp the exponent of
// a normal number.
template <int kUp>
PLANCK_HD float scaled_down(float v, float, float up) {
  constexpr float kDown = 1.0f / static_cast<float>(1u << kUp);
  return v * from_bits(bits_of(up) << Layout<float>::kMantissa) * kDown;
}

// An integer of at most mantissa − 2 bits as a float, by additions alone.
template <class T>
PLANCK_HD T small_integer(SignedOf<T> n) {
  return from_bits(bits_of(Layout<T>::kRounder) + static_cast<UnsignedOf<T>>(n)) -
         Layout<T>::kRounder;
}

// x / unit rounded to an integer, as a number and as bits; |x / unit| < 2^(mantissa − 2).
template <class T>
struct Rounded {
  T value;
  SignedOf<T> integer;
};
template <class T>
PLANCK_HD Rounded<T> rounded_multiple(T x, T inverse_unit) {
  const T t = fma_of(x, inverse_unit, Layout<T>::kRounder);
  return {t - Layout<T>::kRounder, integer_of(t)};
}

}  // namespace planck::math
