// f32 to the digits of exact products, on the device.
#pragma once

#include "planck/math/products/exact_product.h"

namespace planck::gemm_device {

// Digits of four neighbours in a word, for each of the three planes.
//
// With 128 added, a digit is a byte of q + 0x808080. For usual exponents q is in the low bits of
// x 2^(22 - e) + 3 2^22, which is rounded as q is.
struct Cutter {
  static constexpr int kPlanes = 3;
  int exponent;
  float scale;  // 2^(22 - e), or 0 where that is no normal number
  __device__ explicit Cutter(int e) : exponent(e), scale(0) {
    if (e > -100 && e < 128) scale = __uint_as_float(static_cast<std::uint32_t>(149 - e) << 23);
  }
  // A branch for four neighbours rather than for each.
  __device__ void operator()(const float* v, std::uint32_t (&words)[3]) const {
    if (scale != 0)
      pick(usual(v[0]), usual(v[1]), usual(v[2]), usual(v[3]), words);
    else
      pick(any(v[0]), any(v[1]), any(v[2]), any(v[3]), words);
  }

 private:
  __device__ std::uint32_t usual(float v) const {
    return __float_as_uint(__fmaf_rn(v, scale, 12582912.0f)) - (0x4b400000u - 0x808080u);
  }
  __device__ std::uint32_t any(float v) const {
    const int q = exponent == math::exact::kNotFinite ? 0 : math::exact::rounded(v, exponent);
    return static_cast<std::uint32_t>(q) + 0x808080u;
  }
  static __device__ void pick(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d,
                              std::uint32_t (&words)[3]) {
    const auto plane = [&](unsigned low, unsigned high) {
      return __byte_perm(__byte_perm(a, b, low), __byte_perm(c, d, low), high) ^ 0x80808080u;
    };
    words[0] = plane(0x0062, 0x5410), words[1] = plane(0x0051, 0x5410),
    words[2] = plane(0x0040, 0x5410);
  }
};

}  // namespace planck::gemm_device
