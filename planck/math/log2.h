// log2 of a positive f32 in two parts, high + low, right to about 2^-34 of itself: pow needs that,
// for y may multiply its error by 128.
//
//   x = 2^k m, 0.703 <= m < 1.406;  log2 x = (k − log2 c) + log2(1 + r),  r = m c − 1
//   log2(1 + r) = p (log2(e) / 2 + r² Q(r)),  p = 2r − r² in two parts
//
// c, from a table by the upper bits of m, is near 1 / m and so short that r is exact: |r| < 0.0342.
// Around 1 it is 1, so that log2 x = log2(1 + r) there and nothing cancels.
#pragma once

#include "planck/math/float_bits.h"

namespace planck::math {

namespace log2_detail {

// Part i of the numbers from kLowest on, in units of kUnit: where floats as integers have steps of
// 1/16 of an octave's mantissas.
inline constexpr int kEntries = 16, kUnit = 19;
inline constexpr std::uint32_t kLowest = 0x3f340000u;  // bits of 0.703125

// c and −log2 c in two parts; the upper ones are multiples of 2^-16, so that k can be added.
struct alignas(64) Table {
  float c[kEntries], high[kEntries], low[kEntries];
};
PLANCK_HD constexpr Table table() {
  return {
      {0x1.6p0f, 0x1.58p0f, 0x1.48p0f, 0x1.38p0f, 0x1.3p0f, 0x1.28p0f, 0x1.18p0f, 0x1.1p0f,
       0x1.08p0f, 1.0f, 0x1.ep-1f, 0x1.c8p-1f, 0x1.bp-1f, 0x1.98p-1f, 0x1.88p-1f, 0x1.7p-1f},
      {-0x1.d674p-2f, -0x1.b48p-2f, -0x1.6e24p-2f, -0x1.244p-2f, -0x1.fbcp-3f, -0x1.acf8p-3f,
       -0x1.08c8p-3f, -0x1.664p-4f, -0x1.6bap-5f, 0.0f, 0x1.7d6p-4f, 0x1.564p-3f, 0x1.f6p-3f,
       0x1.4f7p-2f, 0x1.8a88p-2f, 0x1.e7ep-2f},
      {-0x1.3e032ep-18f, 0x1.408c78p-18f, 0x1.e3263p-18f, -0x1.eac382p-20f, -0x1.6b9026p-19f,
       0x1.0e9258p-18f, 0x1.3b992cp-18f, 0x1.20a6dep-21f, -0x1.a6eb1ep-18f, 0.0f, 0x1.25b3eep-22f,
       -0x1.1eb002p-18f, -0x1.3ab7cep-18f, -0x1.134c4ep-20f, 0x1.80abfcp-18f, -0x1.40358ep-19f}};
}

// Q: error 2^-35.3 of the logarithm. kHalf + kHalfRest = log2(e) / 2.
PLANCK_HD constexpr Terms<4> terms() {
  return {{0x1.ec709ap-3f, -0x1.ec69b6p-5f, 0x1.d43094p-4f, -0x1.11cca6p-4f}};
}
inline constexpr float kHalf = 0x1.715476p-1f, kHalfRest = 0x1.4ae0cp-27f;

}  // namespace log2_detail

#include "planck/math/formulas/log2.h"

}  // namespace planck::math
