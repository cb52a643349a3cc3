// exp of f32 on the device where something is known of its argument: the bits of math::exp with
// half of its instructions. NaN stays one of any sign. And packed extremes.
#pragma once

#include "planck/loops/floats.cuh"
#include "planck/math/exp.h"

namespace planck::row_device {

// n of x = n ln 2 + r lies in the low bits of `rounded`, from the rounder on.
struct ExpParts {
  float value, rounded;
};
template <int kOffset>
__device__ __forceinline__ ExpParts exp_parts(float x) {
  static_assert(kOffset % 2 == 0, "ties go to even numbers");
  using K = math::exp_detail::Constants<float>;
  constexpr float kRounder = math::Layout<float>::kRounder + static_cast<float>(kOffset);
  const float rounded = math::fma_of(x, K::kInverse, kRounder), n = rounded - kRounder;
  float r = math::fma_of(n, -K::kHigh, x);
  r = math::fma_of(n, -K::kLow, r);
  return {math::fma_of(r * r, math::exp_detail::tail(r), r) + 1.0f, rounded};
}

// |x| <= kNear: 2^n is added to the exponent, which stays a normal one.
inline constexpr float kNear = 86.0f;
__device__ __forceinline__ float exp_near(float x) {
  const ExpParts p = exp_parts<0>(x);
  return __uint_as_float(__float_as_uint(p.value) + (__float_as_uint(p.rounded) << 23));
}
__device__ __forceinline__ double exp_near(double x) { return math::exp(x); }

// NaN where either is; +0 is above -0.
__device__ __forceinline__ float larger(float a, float b) {
  float v;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}

// x <= 0, or NaN. 2^n is 2^(n + 25) 2^-25: only the second product rounds.
__device__ __forceinline__ float exp_below(float x) {
  const ExpParts p = exp_parts<127 + 25>(larger(x, math::exp_detail::Constants<float>::kLowest));
  return p.value * __uint_as_float(__float_as_uint(p.rounded) << 23) * 0x1p-25f;
}
__device__ __forceinline__ double exp_below(double x) { return math::exp(x); }

// The larger or the smaller of two packs of T other than f64, place by place.
template <class T, bool kLarger>
__device__ __forceinline__ Pack<16> extreme(const Pack<16>& a, const Pack<16>& b) {
  Pack<16> v;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const std::uint32_t l = a.word[w], r = b.word[w];
    std::uint32_t& to = v.word[w];
    if constexpr (std::is_same_v<T, float> && kLarger)
      asm("max.NaN.f32 %0, %1, %2;" : "=r"(to) : "r"(l), "r"(r));
    else if constexpr (std::is_same_v<T, float>)
      asm("min.NaN.f32 %0, %1, %2;" : "=r"(to) : "r"(l), "r"(r));
    else if constexpr (std::is_same_v<T, f16> && kLarger)
      asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(to) : "r"(l), "r"(r));
    else if constexpr (std::is_same_v<T, f16>)
      asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(to) : "r"(l), "r"(r));
    else if constexpr (kLarger)
      asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(to) : "r"(l), "r"(r));
    else
      asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(to) : "r"(l), "r"(r));
  }
  return v;
}

}  // namespace planck::row_device
