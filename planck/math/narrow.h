// The elementary functions of 16-bit floats, T = f16 or bf16: an f32 argument that T holds, an f32
// result to be rounded to T. As exact as that needs and no longer: two bytes per element leave a
// GPU 26 instructions for each, loads and conversions included.
//
//   exp      2^n 2^r, x log2 e = n + r; bf16 by its root, which neither overflows nor underflows
//   sigmoid  e / (1 + e), e = e^x
//   silu     x sigmoid(x)
//   tanh     e / (e + 2), e = e^2x − 1 = 2^n (2^r − 1) + (2^n − 1): exact to the end near 0
//   gelu     max(x, 0) − a Φ(−a), a = |x|; log2 Φ(−a) = −1 + a P(a)
//   log      x = 2^k (1 + f):  k ln 2 + f P(f)
//   sin      x = n π + r:  ± r (1 + r² P(r²))
//   pow      2^(y log2 |x|), with signs and special values as in C99
//
// Of the 65,536 arguments of a function so many do not give the correctly rounded result, but the
// other neighbour of the exact one (at most 0.505 units away). The tests hold these figures, and
// that exp, sigmoid, tanh and log are monotone. pow: 1 pair in 3,300 (f16) or 9,600 (bf16).
//
//          exp   sigmoid   silu   tanh   gelu   log   sin
//   f16      4         5      1      0     41     0     2
//   bf16     0         0      0      0      1     0     0
//
// The polynomials are minimax ones whose last bits were then chosen by trial, over all arguments.
#pragma once

#include "planck/math/log2_of_bf16.h"
#include "planck/math/pow.h"
#include "planck/math/trig.h"

namespace planck::math::narrow {

namespace detail {

// The range of arguments of exp: past it T holds 0, or Inf, and silu(x) rounds to −0.
template <class T>
struct Range;
template <>
struct Range<f16> {
  static constexpr float kLowest = -22, kHighest = 12;
};
template <>
struct Range<bf16> {
  static constexpr float kLowest = -100, kHighest = 90;
};

// 2^r and (2^r − 1) / r.
PLANCK_HD constexpr Terms<6> exp2_terms() {
  return {{1.0f, 0x1.62e3f4p-1f, 0x1.ebf778p-3f, 0x1.c6ccd8p-5f, 0x1.3d6924p-7f, 0x1.57f576p-10f}};
}
PLANCK_HD constexpr Terms<5> exp2_tail_terms() {
  return {{0x1.62e42ep-1f, 0x1.ebfaf2p-3f, 0x1.c6b19ap-5f, 0x1.3c9c54p-7f, 0x1.5cf0e8p-10f}};
}
inline constexpr float kLog2E = 0x1.715476p0f;

// log2 Φ(−a) up to where a Φ(−a) rounds to 0.
template <class T>
inline constexpr float kGeluFar = std::is_same_v<T, f16> ? 6.2f : 14.0f;
template <class T>
PLANCK_HD constexpr auto log2_tail_terms() {
  if constexpr (std::is_same_v<T, f16>)
    return Terms<8>{{-1.0f, -0x1.26b5dap0f, -0x1.d58ccep-2f, -0x1.b978ap-5f, 0x1.15c928p-7f,
                     -0x1.e41bf6p-11f, 0x1.fdb5a4p-15f, -0x1.e2a296p-20f}};
  else
    return Terms<10>{{-1.0f, -0x1.26a7a4p0f, -0x1.d61b68p-2f, -0x1.b76972p-5f, 0x1.1759f8p-7f,
                      -0x1.02c082p-10f, 0x1.4b509ap-14f, -0x1.12de76p-18f, 0x1.08324p-23f,
                      -0x1.bd1666p-30f}};
}

// log(1 + f) / f, sqrt(1/2) <= 1 + f < sqrt(2).
PLANCK_HD constexpr Terms<8> log_terms() {
  return {{0x1.fffffep-1f, -0x1.000066p-1f, 0x1.555c14p-2f, -0x1.ff5f44p-3f, 0x1.978804p-3f,
           -0x1.61417cp-3f, 0x1.4b77b8p-3f, -0x1.9d889ep-4f}};
}

// log2(1 + f) / f, sqrt(1/2) <= 1 + f < sqrt(2).
PLANCK_HD constexpr Terms<8> log2_terms() {
  return {{0x1.715474p0f, -0x1.715538p-1f, 0x1.ec7aeep-2f, -0x1.70df2ap-2f, 0x1.2578fp-2f,
           -0x1.fcceaap-3f, 0x1.e82eep-3f, -0x1.39d158p-3f}};
}

// (sin r / r − 1) / r², |r| <= π/2.
PLANCK_HD constexpr Terms<4> sin_terms() {
  return {{-0x1.555568p-3f, 0x1.111086p-7f, -0x1.9f99b6p-13f, 0x1.5efcb8p-19f}};
}

}  // namespace detail

// e is kept 2^64 times too large where T has results that are subnormal in f32: bf16.
template <class T>
inline constexpr int kSigmoidUp = std::is_same_v<T, f16> ? 0 : 64;

#include "planck/math/formulas/narrow.h"

namespace detail {

// log of a normal v > 0, or of 2^-23 v.
PLANCK_HD Logarithmic<float> logarithmic(float v, bool down) {
  const Logarithmic<float> l = math::logarithmic(v);
  return {l.m, down ? l.k - 23 * 0x1p23f : l.k};
}

}  // namespace detail

// f16 has no numbers that are subnormal in f32.
template <class T>
PLANCK_HD float log(float x) {
  const bool subnormal = std::is_same_v<T, bf16> && x < 0x1p-126f;
  const float v = subnormal ? x * 0x1p23f : x;
  const float y = short_log(detail::logarithmic(v, subnormal));
#if defined(__CUDA_ARCH__)  // one instruction knows all special values
  float special;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(special) : "f"(v));
  return abs_of(special) < infinity_of(x) ? y : special;
#else
  const float above = x == infinity_of(x) ? x : y, known = x > 0.0f ? above : nan_of(x);
  return x == 0.0f ? -infinity_of(x) : known;
#endif
}

template <class T>
PLANCK_HD float sin(float x) {
  if constexpr (std::is_same_v<T, bf16>)
    if (far_from_zero(x)) return math::sin(x);
  return sin_near(x);
}

// x^0 and 1^y are 1 whatever the other is; a NaN y is no whole number, which makes (−1)^y one.
template <class T>
PLANCK_HD float pow(float x, float y) {
  constexpr float kWhole = 0x1p23f, kEven = 0x1p22f;  // 16-bit numbers as large are even
  const float size_of_x = abs_of(x);
  const bool ordinary = (size_of_x > 0.0f) & (size_of_x < infinity_of(x));
  const bool subnormal = std::is_same_v<T, bf16> && size_of_x < 0x1p-126f;
  const float log =
      short_log2(detail::logarithmic(subnormal ? size_of_x * 0x1p23f : size_of_x, subnormal));
  const float p = y * (x != x ? x : pow_detail::with_special_logs(log, size_of_x));
  const bool bounded = ordinary & (abs_of(p) < pow_detail::kFar);
  const float power = short_power(exponent_of(bounded ? y : 0.0f, bounded ? log : 0.0f));
  const bool one = (y == 0.0f) | (size_of_x == 1.0f);
  const float size = one ? 1.0f : bounded ? power : pow_detail::limit_of(p);
  const float a = std::is_same_v<T, f16> ? abs_of(y) : at_most(abs_of(y), kEven);
  const float shifted = a + kWhole;
  const bool whole = shifted - kWhole == a;
  const std::uint32_t odd = whole ? bits_of(shifted) << 31 : 0u;
  const float result = from_bits(bits_of(size) | (bits_of(x) & odd));
  return (x < 0.0f) & (x > -infinity_of(x)) & !whole ? nan_of(x) : result;
}

// See planck::math::usual.
namespace usual {

template <class T>
PLANCK_HD math::usual::Power power_of(float a, float y) {
  float log;
  if constexpr (std::is_same_v<T, bf16>) {
    log =
        fma_of(math::logarithmic(a).k, 0x1p-23f, detail::log2_of_mantissa(bits_of(a) >> 16 & 127));
  } else {
    log = short_log2(math::logarithmic(a));
  }
  const auto e = exponent_of(y, log);
  return math::usual::assembled(polynomial(e.f, detail::exp2_terms()), e);
}

}  // namespace usual

}  // namespace planck::math::narrow
