// GGUF's block formats as f32: `count` blocks of 32 elements, of 256 for the K formats.
//
//   Q4_0  Q5_0  Q8_0    d q                     d: f16, one scale for 32 elements
//   Q4_1  Q5_1          d q + m                 m: f16, their least
//   Q2_K  Q4_K  Q5_K    (d s) q − (dmin m)      s, m: small integers for each 16 or 32 of 256
//   Q3_K  Q6_K          (d s) q
//   IQ4_NL              d v[q]                  v: sixteen fixed values
//   MXFP4               2^(e − 127) e2m1
//
// In f32, with the products and the sum in the order written: the same bits as the `gguf` package.
#pragma once

#include <cstddef>
#include <cstdint>

namespace planck {

void decode_q4_0(const std::byte* in, std::int64_t count, float* out);
void decode_q4_1(const std::byte* in, std::int64_t count, float* out);
void decode_q5_0(const std::byte* in, std::int64_t count, float* out);
void decode_q5_1(const std::byte* in, std::int64_t count, float* out);
void decode_q8_0(const std::byte* in, std::int64_t count, float* out);
void decode_q2_k(const std::byte* in, std::int64_t count, float* out);
void decode_q3_k(const std::byte* in, std::int64_t count, float* out);
void decode_q4_k(const std::byte* in, std::int64_t count, float* out);
void decode_q5_k(const std::byte* in, std::int64_t count, float* out);
void decode_q6_k(const std::byte* in, std::int64_t count, float* out);
void decode_iq4_nl(const std::byte* in, std::int64_t count, float* out);
void decode_mxfp4(const std::byte* in, std::int64_t count, float* out);

// Scale and least value of the sub-blocks of Q4_K and Q5_K, six bits each, in twelve bytes.
struct ScalesAndMins {
  std::uint8_t scale[8], min[8];
};
ScalesAndMins unpack_scales(const std::byte* twelve);
void pack_scales(const ScalesAndMins& values, std::byte* twelve);

}  // namespace planck
