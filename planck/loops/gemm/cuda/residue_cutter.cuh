// f32 to the residues of exact products (planck/math/products/residues.h), on the device.
#pragma once

#include "planck/math/products/exact_product.h"
#include "planck/math/products/residues.h"

namespace planck::gemm_device {

// Residues of four neighbours in a word, for each of the planes.
struct ResidueCutter {
  static constexpr int kPlanes = math::residues::kMost;
  int exponent;
  float scale;        // 2^(22 - e), or 0 where that is no normal number
  float squares = 0;  // of all integers so far
  __device__ explicit ResidueCutter(int e) : exponent(e), scale(0) {
    if (e > -100 && e < 128) scale = __uint_as_float(static_cast<std::uint32_t>(149 - e) << 23);
  }
  // The bits of q + 3 2^22.
  __device__ std::uint32_t shifted(float v) const {
    if (scale != 0) return __float_as_uint(__fmaf_rn(v, scale, math::residues::kShifting));
    const int q = exponent == math::exact::kNotFinite ? 0 : math::exact::rounded(v, exponent);
    return static_cast<std::uint32_t>(q) + __float_as_uint(math::residues::kShifting);
  }
  __device__ void operator()(const float* v, std::uint32_t (&words)[kPlanes]) {
    namespace residues = math::residues;
    std::uint32_t y[4];
    float x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      y[i] = shifted(v[i]), x[i] = __uint_as_float(y[i]) - residues::kShifting;
      squares = __fmaf_rn(x[i], x[i], squares);
    }
    words[0] = lowest_bytes(y);  // of modulo 256
#pragma unroll
    for (int m = 1; m < kPlanes; ++m) {
      std::uint32_t r[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) r[i] = residues::residue(x[i], y[i], m);
      words[m] = lowest_bytes(r);
    }
  }

 private:
  static __device__ __forceinline__ std::uint32_t lowest_bytes(const std::uint32_t (&v)[4]) {
    return __byte_perm(__byte_perm(v[0], v[1], 0x0040), __byte_perm(v[2], v[3], 0x0040), 0x5410);
  }
};

}  // namespace planck::gemm_device
