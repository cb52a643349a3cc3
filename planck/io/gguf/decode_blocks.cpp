#include "planck/io/gguf/decode_blocks.h"

#include <cstring>

#include "planck/core/half.h"
#include "planck/io/checkpoint/narrow_floats.h"

namespace planck {

namespace {

float half_at(const std::byte* p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, 2);
  return static_cast<float>(f16::from_bits(bits));
}
int byte_at(const std::byte* p) { return std::to_integer<int>(*p); }
int signed_at(const std::byte* p) { return static_cast<std::int8_t>(std::to_integer<int>(*p)); }

// Element i of sixteen bytes that hold elements 0 … 15 in low nibbles and 16 … 31 in high ones.
int nibble_of_32(const std::byte* sixteen, int i) {
  return i < 16 ? byte_at(sixteen + i) & 15 : byte_at(sixteen + i - 16) >> 4;
}

// Blocks of `kBytes` bytes and `kElements` elements.
template <int kElements, int kBytes, class Block>
void each_block(const std::byte* in, std::int64_t count, float* out, Block block) {
  for (std::int64_t b = 0; b < count; ++b) block(in + b * kBytes, out + b * kElements);
}

}  // namespace

void decode_q4_0(const std::byte* in, std::int64_t count, float* out) {
  each_block<32, 18>(in, count, out, [](const std::byte* p, float* y) {
    const float d = half_at(p);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(nibble_of_32(p + 2, i) - 8);
  });
}
void decode_q4_1(const std::byte* in, std::int64_t count, float* out) {
  each_block<32, 20>(in, count, out, [](const std::byte* p, float* y) {
    const float d = half_at(p), m = half_at(p + 2);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(nibble_of_32(p + 4, i)) + m;
  });
}
void decode_q5_0(const std::byte* in, std::int64_t count, float* out) {
  each_block<32, 22>(in, count, out, [](const std::byte* p, float* y) {
    const float d = half_at(p);
    for (int i = 0; i < 32; ++i) {
      const int high = byte_at(p + 2 + i / 8) >> (i % 8) & 1;
      y[i] = d * static_cast<float>((nibble_of_32(p + 6, i) | high << 4) - 16);
    }
  });
}
void decode_q5_1(const std::byte* in, std::int64_t count, float* out) {
  each_block<32, 24>(in, count, out, [](const std::byte* p, float* y) {
    const float d = half_at(p), m = half_at(p + 2);
    for (int i = 0; i < 32; ++i) {
      const int high = byte_at(p + 4 + i / 8) >> (i % 8) & 1;
      y[i] = d * static_cast<float>(nibble_of_32(p + 8, i) | high << 4) + m;
    }
  });
}
void decode_q8_0(const std::byte* in, std::int64_t count, float* out) {
  each_block<32, 34>(in, count, out, [](const std::byte* p, float* y) {
    const float d = half_at(p);
    for (int i = 0; i < 32; ++i) y[i] = static_cast<float>(signed_at(p + 2 + i)) * d;
  });
}

void decode_q2_k(const std::byte* in, std::int64_t count, float* out) {
  each_block<256, 84>(in, count, out, [](const std::byte* p, float* y) {
    const float d = half_at(p + 80), dmin = half_at(p + 82);
    for (int i = 0; i < 256; ++i) {
      const int sub = byte_at(p + i / 16);
      const float scale = d * static_cast<float>(sub & 15),
                  min = dmin * static_cast<float>(sub >> 4);
      const int q = byte_at(p + 16 + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
      y[i] = scale * static_cast<float>(q) - min;
    }
  });
}
void decode_q3_k(const std::byte* in, std::int64_t count, float* out) {
  each_block<256, 110>(in, count, out, [](const std::byte* p, float* y) {
    const std::byte *scales = p + 96, *quants = p + 32;
    const float d = half_at(p + 108);
    float scale[16];
    for (int s = 0; s < 16; ++s) {
      const int low = byte_at(scales + s % 8) >> (s / 8 * 4) & 15;
      const int high = byte_at(scales + 8 + s % 4) >> (s / 4 * 2) & 3;
      scale[s] = d * static_cast<float>((low | high << 4) - 32);
    }
    for (int i = 0; i < 256; ++i) {
      const int low = byte_at(quants + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
      const int set = byte_at(p + i % 32) >> (i / 32) & 1;
      y[i] = scale[i / 16] * static_cast<float>(low - (set != 0 ? 0 : 4));
    }
  });
}

ScalesAndMins unpack_scales(const std::byte* p) {
  ScalesAndMins v{};
  for (int j = 0; j < 4; ++j) {
    v.scale[j] = static_cast<std::uint8_t>(byte_at(p + j) & 63);
    v.min[j] = static_cast<std::uint8_t>(byte_at(p + j + 4) & 63);
    const int both = byte_at(p + j + 8);
    v.scale[j + 4] = static_cast<std::uint8_t>((both & 15) | (byte_at(p + j) >> 6) << 4);
    v.min[j + 4] = static_cast<std::uint8_t>(both >> 4 | (byte_at(p + j + 4) >> 6) << 4);
  }
  return v;
}
void pack_scales(const ScalesAndMins& v, std::byte* p) {
  for (int j = 0; j < 4; ++j) {
    p[j] = static_cast<std::byte>(v.scale[j] | (v.scale[j + 4] >> 4) << 6);
    p[j + 4] = static_cast<std::byte>(v.min[j] | (v.min[j + 4] >> 4) << 6);
    p[j + 8] = static_cast<std::byte>((v.scale[j + 4] & 15) | (v.min[j + 4] & 15) << 4);
  }
}

void decode_q4_k(const std::byte* in, std::int64_t count, float* out) {
  each_block<256, 144>(in, count, out, [](const std::byte* p, float* y) {
    const float d = half_at(p), dmin = half_at(p + 2);
    const ScalesAndMins s = unpack_scales(p + 4);
    for (int j = 0; j < 8; ++j) {
      const float scale = d * static_cast<float>(s.scale[j]),
                  min = dmin * static_cast<float>(s.min[j]);
      const std::byte* quants = p + 16 + j / 2 * 32;
      for (int i = 0; i < 32; ++i)
        y[32 * j + i] = scale * static_cast<float>(byte_at(quants + i) >> (j % 2 * 4) & 15) - min;
    }
  });
}
void decode_q5_k(const std::byte* in, std::int64_t count, float* out) {
  each_block<256, 176>(in, count, out, [](const std::byte* p, float* y) {
    const float d = half_at(p), dmin = half_at(p + 2);
    const ScalesAndMins s = unpack_scales(p + 4);
    for (int j = 0; j < 8; ++j) {
      const float scale = d * static_cast<float>(s.scale[j]),
                  min = dmin * static_cast<float>(s.min[j]);
      const std::byte *high = p + 16, *low = p + 48 + j / 2 * 32;
      for (int i = 0; i < 32; ++i) {
        const int q = (byte_at(low + i) >> (j % 2 * 4) & 15) | (byte_at(high + i) >> j & 1) << 4;
        y[32 * j + i] = scale * static_cast<float>(q) - min;
      }
    }
  });
}
void decode_q6_k(const std::byte* in, std::int64_t count, float* out) {
  each_block<256, 210>(in, count, out, [](const std::byte* p, float* y) {
    const std::byte *high = p + 128, *scales = p + 192;
    const float d = half_at(p + 208);
    for (int i = 0; i < 256; ++i) {
      const int half = i / 128, part = i % 128 / 32, at = i % 32;
      const int low = byte_at(p + half * 64 + part % 2 * 32 + at) >> (part / 2 * 4) & 15;
      const int q = (low | (byte_at(high + half * 32 + at) >> (part * 2) & 3) << 4) - 32;
      y[i] = d * static_cast<float>(signed_at(scales + i / 16)) * static_cast<float>(q);
    }
  });
}

void decode_iq4_nl(const std::byte* in, std::int64_t count, float* out) {
  constexpr int kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                             1,    13,   25,  38,  53,  69,  89,  113};
  each_block<32, 18>(in, count, out, [&](const std::byte* p, float* y) {
    const float d = half_at(p);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(kValues[nibble_of_32(p + 2, i)]);
  });
}
void decode_mxfp4(const std::byte* in, std::int64_t count, float* out) {
  each_block<32, 17>(in, count, out, [](const std::byte* p, float* y) {
    const float scale = f8_e8m0_value(std::to_integer<std::uint8_t>(*p));
    for (int i = 0; i < 32; ++i)
      y[i] = scale * f4_e2m1_value(static_cast<std::uint8_t>(nibble_of_32(p + 1, i)));
  });
}

}  // namespace planck
