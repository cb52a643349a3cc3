// Both fits work in three steps: each sub-block by itself, over a row of candidates for the inverse
// scale, whose codes give the best scale (and least value) in closed form; then the super-block's
// f16 factors; then, with these as they are stored, the integers of every sub-block among the
// neighbours of the rounded ones. Sums run in eight lanes, added pairwise.
#include "planck/io/gguf/fit_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "planck/core/half.h"
#include "planck/io/gguf/decode_blocks.h"

namespace planck {

namespace {

constexpr int kLanes = 8;
constexpr float kLargestHalf = 65504.0f;

// To nearest, ties to even, for |v| < 2^22.
float nearest(float v) { return (v + 0x1.8p23f) - 0x1.8p23f; }

float total(const float* lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}
template <int kCount, class Term>
float sum(Term term) {
  float lane[kLanes] = {};
  for (int i = 0; i < kCount; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lane[l] += term(i + l);
  return total(lane);
}

float stored(float value, std::byte* p) {
  const f16 half(std::clamp(value, -kLargestHalf, kLargestHalf));
  std::memcpy(p, &half.bits, 2);
  return static_cast<float>(half);
}

// Codes of x for y = s q − m, and the squared error.
template <int kCount>
float codes(const float* x, float s, float m, float lowest, float highest, float* q) {
  const float inverse = s != 0 ? 1 / s : 0;
  for (int i = 0; i < kCount; ++i)
    q[i] = nearest(std::min(highest, std::max(lowest, (x[i] + m) * inverse)));
  return sum<kCount>([&](int i) {
    const float off = s * q[i] - m - x[i];
    return off * off;
  });
}

// ---- Q4_K: y = s q − m, 0 <= q <= 15, m >= 0 ----------------------------------------------------

struct Affine {
  float scale = 0, min = 0;
};

Affine fit_affine(const float* x) {
  float lo = x[0], hi = x[0];
  for (int i = 1; i < 32; ++i) {
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
  }
  lo = std::min(lo, 0.0f);
  if (hi <= lo) return {0, -lo};
  const float sx = sum<32>([&](int i) { return x[i]; });
  Affine best{(hi - lo) / 15, -lo};
  float q[32], kept[32];
  float least = codes<32>(x, best.scale, best.min, 0, 15, q);
  for (int step = 0; step <= 20; ++step) {
    const float inverse = (14.0f + 0.1f * static_cast<float>(step)) / (hi - lo);
    for (int i = 0; i < 32; ++i)
      q[i] = nearest(std::min(15.0f, std::max(0.0f, (x[i] - lo) * inverse)));
    const float sq = sum<32>([&](int i) { return q[i]; });
    const float sqq = sum<32>([&](int i) { return q[i] * q[i]; });
    const float sxq = sum<32>([&](int i) { return x[i] * q[i]; });
    const float determinant = 32 * sqq - sq * sq;
    if (!(determinant > 0)) continue;
    Affine fit{(32 * sxq - sx * sq) / determinant, -(sqq * sx - sq * sxq) / determinant};
    if (fit.min < 0) fit = {sqq > 0 ? sxq / sqq : 0, 0};
    if (!(fit.scale > 0)) continue;
    const float error = codes<32>(x, fit.scale, fit.min, 0, 15, kept);
    if (error < least) {
      least = error;
      best = fit;
    }
  }
  return best;
}

}  // namespace

void fit_q4_k(const float* x, std::byte* out) {
  Affine fits[8];
  float most_scale = 0, most_min = 0;
  for (int j = 0; j < 8; ++j) {
    fits[j] = fit_affine(x + 32 * j);
    most_scale = std::max(most_scale, fits[j].scale);
    most_min = std::max(most_min, fits[j].min);
  }
  const float d = stored(most_scale / 63, out), dmin = stored(most_min / 63, out + 2);
  const float per_d = d > 0 ? 1 / d : 0, per_dmin = dmin > 0 ? 1 / dmin : 0;
  ScalesAndMins s{};
  float q[256];
  for (int j = 0; j < 8; ++j) {
    const float* part = x + 32 * j;
    const int scale = static_cast<int>(nearest(std::min(63.0f, fits[j].scale * per_d)));
    const int min = static_cast<int>(nearest(std::min(63.0f, fits[j].min * per_dmin)));
    float least = -1;  // none yet: the first is taken whatever its error, which may be infinite
    for (int a = std::max(0, scale - 1); a <= std::min(63, scale + 1); ++a)
      for (int b = std::max(0, min - 1); b <= std::min(63, min + 1); ++b) {
        float tried[32];
        const float error =
            codes<32>(part, d * static_cast<float>(a), dmin * static_cast<float>(b), 0, 15, tried);
        if (least != -1 && !(error < least)) continue;
        least = error;
        s.scale[j] = static_cast<std::uint8_t>(a);
        s.min[j] = static_cast<std::uint8_t>(b);
        std::memcpy(q + 32 * j, tried, sizeof(tried));
      }
  }
  pack_scales(s, out + 4);
  for (int j = 0; j < 8; j += 2)
    for (int i = 0; i < 32; ++i)
      out[16 + 16 * j + i] = static_cast<std::byte>(static_cast<int>(q[32 * j + i]) |
                                                    static_cast<int>(q[32 * j + 32 + i]) << 4);
}

namespace {

// ---- Q6_K: y = s q, −32 <= q <= 31; s has a sign, so that either end may be the longer one
// -------

float fit_centred(const float* x) {
  float most = 0, value = 0;
  for (int i = 0; i < 16; ++i)
    if (most < std::fabs(x[i])) {
      most = std::fabs(x[i]);
      value = x[i];
    }
  if (most == 0) return 0;
  float best = value / -32, q[16];
  float least = codes<16>(x, best, 0, -32, 31, q);
  for (int step = -9; step <= 9; ++step) {
    const float inverse = -(32.0f + 0.1f * static_cast<float>(step)) / value;
    for (int i = 0; i < 16; ++i) q[i] = nearest(std::min(31.0f, std::max(-32.0f, x[i] * inverse)));
    const float sqq = sum<16>([&](int i) { return q[i] * q[i]; });
    const float sxq = sum<16>([&](int i) { return x[i] * q[i]; });
    if (!(sqq > 0)) continue;
    float kept[16];
    const float error = codes<16>(x, sxq / sqq, 0, -32, 31, kept);
    if (error < least) {
      least = error;
      best = sxq / sqq;
    }
  }
  return best;
}

}  // namespace

void fit_q6_k(const float* x, std::byte* out) {
  float scales[16], most = 0, value = 0;
  for (int j = 0; j < 16; ++j) {
    scales[j] = fit_centred(x + 16 * j);
    if (most < std::fabs(scales[j])) {
      most = std::fabs(scales[j]);
      value = scales[j];
    }
  }
  const float d = stored(value / -128, out + 208), per_d = d != 0 ? 1 / d : 0;
  int q[256];
  for (int j = 0; j < 16; ++j) {
    const int scale = static_cast<int>(nearest(std::clamp(scales[j] * per_d, -128.0f, 127.0f)));
    float least = -1;
    for (int a = std::max(-128, scale - 1); a <= std::min(127, scale + 1); ++a) {
      float tried[16];
      const float error = codes<16>(x + 16 * j, d * static_cast<float>(a), 0, -32, 31, tried);
      if (least != -1 && !(error < least)) continue;
      least = error;
      out[192 + j] = static_cast<std::byte>(static_cast<std::int8_t>(a));
      for (int i = 0; i < 16; ++i) q[16 * j + i] = static_cast<int>(tried[i]) + 32;
    }
  }
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 32; ++i) {
      const int* p = q + 128 * half + i;
      out[64 * half + i] = static_cast<std::byte>((p[0] & 15) | (p[64] & 15) << 4);
      out[64 * half + 32 + i] = static_cast<std::byte>((p[32] & 15) | (p[96] & 15) << 4);
      out[128 + 32 * half + i] = static_cast<std::byte>(p[0] >> 4 | (p[32] >> 4) << 2 |
                                                        (p[64] >> 4) << 4 | (p[96] >> 4) << 6);
    }
}

}  // namespace planck
