// Floats of 8 and 4 bits as f32, exactly: each has fewer digits and a narrower exponent.
//
//   E4M3      no infinities, NaN is 0x7f and 0xff (OCP, "fn")       E5M2   IEEE's rules
//   …FNUZ     no infinities, no negative zero: 0x80 is NaN; exponents are biased by one more
//   E8M0      2^(byte − 127), 255 is NaN
//   E2M1      0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; two to a byte, the even index in the
//             low nibble
#pragma once

#include <cstddef>
#include <cstdint>

namespace planck {

float f8_e4m3_value(std::uint8_t bits);
float f8_e5m2_value(std::uint8_t bits);
float f8_e4m3fnuz_value(std::uint8_t bits);
float f8_e5m2fnuz_value(std::uint8_t bits);
float f8_e8m0_value(std::uint8_t bits);
float f4_e2m1_value(std::uint8_t nibble);  // the low four bits

// `count` blocks: of one element, of two for E2M1.
void decode_f8_e4m3(const std::byte* in, std::int64_t count, float* out);
void decode_f8_e5m2(const std::byte* in, std::int64_t count, float* out);
void decode_f8_e4m3fnuz(const std::byte* in, std::int64_t count, float* out);
void decode_f8_e5m2fnuz(const std::byte* in, std::int64_t count, float* out);
void decode_f8_e8m0(const std::byte* in, std::int64_t count, float* out);
void decode_f4_e2m1(const std::byte* in, std::int64_t count, float* out);

}  // namespace planck
