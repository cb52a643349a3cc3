// Arguments of sin and cos that are far from zero, reduced by the bits of 2/π.
//
// x = m 2^e with an integer m. Bits of 2/π whose product with 2^e is a multiple of 4 turn x by
// whole circles; the 128 (f64: 192) bits that follow decide. Their product with m, as a binary
// fraction of four quadrants, is right to 2^-70 (2^-135), while no f32 comes closer to a multiple
// of π/2 than 2^-30 of a quadrant, and no f64 closer than 2^-61.
#pragma once

#include "planck/math/float_bits.h"

namespace planck::math {

// x = r + quadrant π/2 + a multiple of 2π, |r| <= π/4 and a little. Only the two low bits count.
template <class T>
struct Reduced {
  T r;
  UnsignedOf<T> quadrant;
};

namespace trig_detail {

__extension__ using Wide = unsigned __int128;

// Bits first … first + 63 of 2/π, where bit 1 is worth 1/2; bits below 1 are zero.
PLANCK_HD std::uint64_t two_over_pi(int first) {
  constexpr std::uint64_t kWords[] = {
      0x0000000000000000u, 0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u,
      0xfe5163abdebbc561u, 0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu,
      0xe88235f52ebb4484u, 0xe99c7026b45f7e41u, 0x3991d639835339f4u, 0x9c845f8bbdf9283bu,
      0x1ff897ffde05980fu, 0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u, 0x4f463f669e5fea2du,
      0x7527bac7ebe5f17bu, 0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu};
  const int at = first + 63;  // bit 1 is the first of the second word
  const int word = at / 64, shift = at % 64;
  const std::uint64_t high = kWords[word] << shift;
  return shift == 0 ? high : high | kWords[word + 1] >> (64 - shift);
}

// A signed fraction of a quadrant, in units of 2^-64, times π/2. Rounded once in f64 and then to T.
PLANCK_HD float angle(std::int64_t units, float) {
  return static_cast<float>(static_cast<double>(units) * 0x1.921fb54442d18p-64);
}
// Of 2^-128, from its two halves. Where the upper one is small, the lower one has its digits.
PLANCK_HD double angle(std::int64_t high, std::uint64_t low) {
  const bool negative = high < 0;
  Wide magnitude = static_cast<Wide>(static_cast<std::uint64_t>(high)) << 64 | low;
  magnitude = negative ? ~magnitude + 1 : magnitude;
  // The first 53 bits, and the next ones as a second number.
  int lead = 0;
  for (; lead < 127 && (magnitude >> 127) == 0; ++lead) magnitude <<= 1;
  const auto top = static_cast<std::uint64_t>(magnitude >> 75);
  const auto next = static_cast<std::uint64_t>(magnitude >> 22) & ((std::uint64_t{1} << 53) - 1);
  const double a = static_cast<double>(static_cast<std::int64_t>(top)) * 0x1p-53;
  const double b = static_cast<double>(static_cast<std::int64_t>(next)) * 0x1p-106;
  const double product = a * 0x1.921fb54442d18p0;
  const double rest = fma_of(a, 0x1.921fb54442d18p0, -product) +
                      fma_of(a, 0x1.1a62633145c07p-54, b * 0x1.921fb54442d18p0);
  const double r = (product + rest) * power_of_two<double>(-lead);
  return negative ? -r : r;
}

}  // namespace trig_detail

// |x| >= 2^16; NaN for ±Inf.
PLANCK_HD Reduced<float> reduce_far(float x) {
  using namespace trig_detail;
  const std::uint32_t bits = bits_of(x) & 0x7fffffffu;
  if (bits >= 0x7f800000u) return {nan_of(x), 0};
  const int e = static_cast<int>(bits >> 23) - 127 - 23;
  const std::uint64_t m = (bits & 0x7fffffu) | 0x800000u;
  // Bit e − 1 is worth two quadrants after the product with 2^e.
  const std::uint64_t high = two_over_pi(e - 1), low = two_over_pi(e + 63);
  const std::uint64_t product = m * high + static_cast<std::uint64_t>((Wide{m} * low) >> 64);
  const auto fraction = static_cast<std::int64_t>(product << 2);
  std::uint32_t quadrant = static_cast<std::uint32_t>(product >> 62) + (fraction < 0 ? 1u : 0u);
  const float r = angle(fraction, 0.0f);
  return x < 0 ? Reduced<float>{-r, 0u - quadrant} : Reduced<float>{r, quadrant};
}

PLANCK_HD Reduced<double> reduce_far(double x) {
  using namespace trig_detail;
  const std::uint64_t bits = bits_of(x) & ~(std::uint64_t{1} << 63);
  if (bits >= 0x7ff0000000000000u) return {nan_of(x), 0};
  const int e = static_cast<int>(bits >> 52) - 1023 - 52;
  const std::uint64_t m = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  const std::uint64_t w0 = two_over_pi(e - 1), w1 = two_over_pi(e + 63), w2 = two_over_pi(e + 127);
  // The upper 128 of 192 bits of m · (w0, w1, w2).
  Wide product = (Wide{m} * w0 << 64) + Wide{m} * w1 + ((Wide{m} * w2) >> 64);
  std::uint64_t quadrant = static_cast<std::uint64_t>(product >> 126);
  product <<= 2;
  const auto high = static_cast<std::int64_t>(static_cast<std::uint64_t>(product >> 64));
  quadrant += high < 0 ? 1u : 0u;
  const double r = angle(high, static_cast<std::uint64_t>(product));
  return x < 0 ? Reduced<double>{-r, 0u - quadrant} : Reduced<double>{r, quadrant};
}

}  // namespace planck::math
