// Packs of stored floats and the values kernels compute with, on the device.
//
// 16-bit floats are converted by the hardware, which rounds as planck::f16 and bf16 do. A computed
// NaN is stored as the canonical one.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "planck/core/half.h"
#include "planck/loops/cuda/pack.cuh"

namespace planck {

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ double widen(double v) { return v; }
__device__ __forceinline__ float widen(f16 v) { return __half2float(__ushort_as_half(v.bits)); }
__device__ __forceinline__ float widen(bf16 v) {
  return __uint_as_float(static_cast<std::uint32_t>(v.bits) << 16);
}

// Element e of a pack.
template <class T, int kBytes>
__device__ __forceinline__ Compute<T> element_of(const Pack<kBytes>& p, int e) {
  if constexpr (std::is_same_v<T, float>) {
    return __uint_as_float(p.word[e]);
  } else if constexpr (std::is_same_v<T, double>) {
    return __hiloint2double(static_cast<int>(p.word[2 * e + 1]), static_cast<int>(p.word[2 * e]));
  } else if constexpr (std::is_same_v<T, bf16>) {
    return __uint_as_float(e % 2 ? p.word[e / 2] & 0xffff0000u : p.word[e / 2] << 16);
  } else {
    const std::uint32_t w = p.word[e / 2];
    return widen(f16::from_bits(static_cast<std::uint16_t>(e % 2 ? w >> 16 : w)));
  }
}

__device__ __forceinline__ float canonical_nan(float v) {
  return v == v ? v : __int_as_float(0x7fc00000);
}
__device__ __forceinline__ double canonical_nan(double v) {
  return v == v ? v : __longlong_as_double(0x7ff8000000000000ll);
}

// Two values rounded to a 16-bit float, the first in the low half. kNan: one may be NaN.
template <class T, bool kNan = true>
__device__ __forceinline__ std::uint32_t rounded_pair(float low, float high) {
  std::conditional_t<std::is_same_v<T, f16>, __half2, __nv_bfloat162> h;
  if constexpr (std::is_same_v<T, f16>)
    h = __floats2half2_rn(low, high);
  else
    h = __floats2bfloat162_rn(low, high);
  const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(&h);
  if constexpr (!kNan) return word;
  const std::uint32_t canonical = std::is_same_v<T, f16> ? 0x7e007e00u : 0x7fc07fc0u;
  const std::uint32_t nan = __hneu2_mask(h, h);
  return (word & ~nan) | (canonical & nan);
}

// A pack of computed values.
template <class T, int kBytes>
__device__ __forceinline__ Pack<kBytes> packed(const Compute<T>* v) {
  Pack<kBytes> p;
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int e = 0; e < kBytes / 4; ++e) p.word[e] = __float_as_uint(canonical_nan(v[e]));
  } else if constexpr (std::is_same_v<T, double>) {
#pragma unroll
    for (int e = 0; e < kBytes / 8; ++e) {
      const double c = canonical_nan(v[e]);
      p.word[2 * e] = static_cast<std::uint32_t>(__double2loint(c));
      p.word[2 * e + 1] = static_cast<std::uint32_t>(__double2hiint(c));
    }
  } else if constexpr (kBytes == 2) {
    p.word[0] = rounded_pair<T>(v[0], 0.0f);
  } else {
#pragma unroll
    for (int e = 0; e < kBytes / 2; e += 2) p.word[e / 2] = rounded_pair<T>(v[e], v[e + 1]);
  }
  return p;
}

}  // namespace planck
