#include "planck/io/gguf/encode_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "planck/core/half.h"
#include "planck/io/gguf/fit_blocks.h"

namespace planck {

namespace {

constexpr float kLargestHalf = 65504.0f;

void put_half(std::byte* p, float value) {
  const std::uint16_t bits = f16(std::clamp(value, -kLargestHalf, kLargestHalf)).bits;
  std::memcpy(p, &bits, 2);
}

// A block without NaN and infinities.
template <int kCount>
struct Finite {
  float x[kCount];
  explicit Finite(const float* in) {
    bool odd = false;
    for (int i = 0; i < kCount; ++i) odd |= !(in[i] - in[i] == 0);
    if (!odd) {
      std::memcpy(x, in, sizeof(x));
      return;
    }
    float lo = 0, hi = 0;
    for (int i = 0; i < kCount; ++i)
      if (in[i] - in[i] == 0) {
        lo = std::min(lo, in[i]);
        hi = std::max(hi, in[i]);
      }
    for (int i = 0; i < kCount; ++i)
      x[i] = in[i] - in[i] == 0 ? in[i] : in[i] != in[i] ? 0 : in[i] > 0 ? hi : lo;
  }
};

// Half away from zero, as roundf.
float rounded(float v) {
  const float a = std::fabs(v), whole = std::floor(a), up = whole + std::floor(2 * (a - whole));
  return v < 0 ? -up : up;
}

template <int kBytes, class Block>
void each_32(const float* x, std::int64_t blocks, std::byte* out, Block block) {
  for (std::int64_t b = 0; b < blocks; ++b) block(Finite<32>(x + 32 * b).x, out + kBytes * b);
}

void encode_q8_0(const float* in, std::int64_t blocks, std::byte* out) {
  each_32<34>(in, blocks, out, [](const float* x, std::byte* p) {
    float most = 0;
    for (int i = 0; i < 32; ++i) most = std::max(most, std::fabs(x[i]));
    const float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    put_half(p, d);
    for (int i = 0; i < 32; ++i)
      p[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(rounded(x[i] * inverse)));
  });
}

// Low nibbles of elements 0 … 15 and 16 … 31 to sixteen bytes; fifth bits to four more.
void put_nibbles(const std::uint8_t* q, std::byte* p) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::byte>((q[i] & 15) | (q[i + 16] & 15) << 4);
}
void put_fifth_bits(const std::uint8_t* q, std::byte* p) {
  for (int b = 0; b < 4; ++b) {
    unsigned bits = 0;
    for (int i = 0; i < 8; ++i) bits |= static_cast<unsigned>(q[8 * b + i] >> 4 & 1) << i;
    p[b] = static_cast<std::byte>(bits);
  }
}

// d = the value of largest magnitude / −kHalf, so that it takes the end that has one step more.
template <int kHalf>
float centred(const float* x, std::uint8_t* q) {
  float most = 0, value = 0;
  for (int i = 0; i < 32; ++i)
    if (most < std::fabs(x[i])) {
      most = std::fabs(x[i]);
      value = x[i];
    }
  const float d = value / -kHalf, inverse = d != 0 ? 1 / d : 0;
  for (int i = 0; i < 32; ++i)
    q[i] = static_cast<std::uint8_t>(
        std::min(2 * kHalf - 1, static_cast<int>(x[i] * inverse + (kHalf + 0.5f))));
  return d;
}
// d = (largest − least) / kSteps.
template <int kSteps>
float from_least(const float* x, std::uint8_t* q, float& least) {
  float most = x[0];
  least = x[0];
  for (int i = 1; i < 32; ++i) {
    least = std::min(least, x[i]);
    most = std::max(most, x[i]);
  }
  const float d = (most - least) / kSteps, inverse = d != 0 ? 1 / d : 0;
  for (int i = 0; i < 32; ++i)
    q[i] = static_cast<std::uint8_t>(
        std::min(kSteps, static_cast<int>((x[i] - least) * inverse + 0.5f)));
  return d;
}

void encode_q4_0(const float* in, std::int64_t blocks, std::byte* out) {
  each_32<18>(in, blocks, out, [](const float* x, std::byte* p) {
    std::uint8_t q[32];
    put_half(p, centred<8>(x, q));
    put_nibbles(q, p + 2);
  });
}
void encode_q5_0(const float* in, std::int64_t blocks, std::byte* out) {
  each_32<22>(in, blocks, out, [](const float* x, std::byte* p) {
    std::uint8_t q[32];
    put_half(p, centred<16>(x, q));
    put_fifth_bits(q, p + 2);
    put_nibbles(q, p + 6);
  });
}
void encode_q4_1(const float* in, std::int64_t blocks, std::byte* out) {
  each_32<20>(in, blocks, out, [](const float* x, std::byte* p) {
    std::uint8_t q[32];
    float least = 0;
    put_half(p, from_least<15>(x, q, least));
    put_half(p + 2, least);
    put_nibbles(q, p + 4);
  });
}
void encode_q5_1(const float* in, std::int64_t blocks, std::byte* out) {
  each_32<24>(in, blocks, out, [](const float* x, std::byte* p) {
    std::uint8_t q[32];
    float least = 0;
    put_half(p, from_least<31>(x, q, least));
    put_half(p + 2, least);
    put_fifth_bits(q, p + 4);
    put_nibbles(q, p + 8);
  });
}

void encode_q4_k(const float* in, std::int64_t blocks, std::byte* out) {
  for (std::int64_t b = 0; b < blocks; ++b) fit_q4_k(Finite<256>(in + 256 * b).x, out + 144 * b);
}
void encode_q6_k(const float* in, std::int64_t blocks, std::byte* out) {
  for (std::int64_t b = 0; b < blocks; ++b) fit_q6_k(Finite<256>(in + 256 * b).x, out + 210 * b);
}

}  // namespace

EncodeBlocks find_block_encoder(const TensorEncoding& encoding) {
  constexpr struct {
    std::string_view text;
    EncodeBlocks encode;
  } kEncoders[] = {{"Q8_0", encode_q8_0}, {"Q4_0", encode_q4_0}, {"Q4_1", encode_q4_1},
                   {"Q5_0", encode_q5_0}, {"Q5_1", encode_q5_1}, {"Q4_K", encode_q4_k},
                   {"Q6_K", encode_q6_k}};
  for (const auto& e : kEncoders)
    if (e.text == encoding.text) return e.encode;
  return nullptr;
}

}  // namespace planck
