#include "planck/io/checkpoint/narrow_floats.h"

#include <array>
#include <cmath>
#include <limits>

namespace planck {

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A byte of one sign, `kExponent` and 7 − kExponent bits, without its special values.
template <int kExponent, int kBias>
float plain_value(std::uint8_t bits) {
  constexpr int kMantissa = 7 - kExponent;
  const int exponent = (bits & 0x7f) >> kMantissa;
  const int mantissa = bits & ((1 << kMantissa) - 1);
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissa)
                              : std::ldexp(static_cast<float>(mantissa + (1 << kMantissa)),
                                           exponent - kBias - kMantissa);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

// All 256 values, made at the first call: then a byte is a look-up.
template <auto kValue>
void decode_bytes(const std::byte* in, std::int64_t count, float* out) {
  static const auto table = [] {
    std::array<float, 256> values{};
    for (std::size_t i = 0; i < 256; ++i) values[i] = kValue(static_cast<std::uint8_t>(i));
    return values;
  }();
  for (std::int64_t i = 0; i < count; ++i) out[i] = table[std::to_integer<std::size_t>(in[i])];
}

}  // namespace

float f8_e4m3_value(std::uint8_t bits) {
  return (bits & 0x7f) == 0x7f ? kNan : plain_value<4, 7>(bits);
}
float f8_e5m2_value(std::uint8_t bits) {
  const int magnitude = bits & 0x7f;
  if (magnitude > 0x7c) return kNan;
  if (magnitude < 0x7c) return plain_value<5, 15>(bits);
  const float infinity = std::numeric_limits<float>::infinity();
  return (bits & 0x80) != 0 ? -infinity : infinity;
}
float f8_e4m3fnuz_value(std::uint8_t bits) { return bits == 0x80 ? kNan : plain_value<4, 8>(bits); }
float f8_e5m2fnuz_value(std::uint8_t bits) {
  return bits == 0x80 ? kNan : plain_value<5, 16>(bits);
}
float f8_e8m0_value(std::uint8_t bits) {
  return bits == 255 ? kNan : std::ldexp(1.0f, static_cast<int>(bits) - 127);
}
float f4_e2m1_value(std::uint8_t nibble) {
  constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const float magnitude = kMagnitudes[nibble & 7];
  return (nibble & 8) != 0 ? -magnitude : magnitude;
}

void decode_f8_e4m3(const std::byte* in, std::int64_t count, float* out) {
  decode_bytes<f8_e4m3_value>(in, count, out);
}
void decode_f8_e5m2(const std::byte* in, std::int64_t count, float* out) {
  decode_bytes<f8_e5m2_value>(in, count, out);
}
void decode_f8_e4m3fnuz(const std::byte* in, std::int64_t count, float* out) {
  decode_bytes<f8_e4m3fnuz_value>(in, count, out);
}
void decode_f8_e5m2fnuz(const std::byte* in, std::int64_t count, float* out) {
  decode_bytes<f8_e5m2fnuz_value>(in, count, out);
}
void decode_f8_e8m0(const std::byte* in, std::int64_t count, float* out) {
  decode_bytes<f8_e8m0_value>(in, count, out);
}
void decode_f4_e2m1(const std::byte* in, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto pair = std::to_integer<std::uint8_t>(in[i]);
    out[2 * i] = f4_e2m1_value(pair);
    out[2 * i + 1] = f4_e2m1_value(static_cast<std::uint8_t>(pair >> 4));
  }
}

}  // namespace planck
