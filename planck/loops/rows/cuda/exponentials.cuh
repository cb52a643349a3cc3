// exp of f32 on the device where something is known of its argument: the bits of math::exp with
// half of its instructions. NaN stays one of any sign. And extremes of packs.
#pragma once

#include "planck/loops/cuda/floats.cuh"
#include "planck/math/exp_terms.h"

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

// e(z), −86 <= z <= 70: 2^n is added to the exponent, which stays a normal one.
__device__ __forceinline__ float term_near(float z) {
  using K = math::exp_detail::Constants<float>;
  constexpr float kRounder = math::Layout<float>::kRounder;
  const float rounded = math::fma_of(z, K::kInverse, kRounder), n = rounded - kRounder;
  const float factor = math::term_factor(math::fma_of(n, -math::kTermUnit, z));
  return __uint_as_float(__float_as_uint(factor) + (__float_as_uint(rounded) << 23));
}
__device__ __forceinline__ double term_near(double z) { return math::exp_term(z); }

// The largest and the least of 16-bit floats in packs. As integers positive floats rise and
// negative ones fall: the largest signed number is the largest float where one is positive, the
// largest unsigned one the least where one is negative. One instruction looks at four floats.
template <class T>
struct Extremes {
  std::uint32_t risen = 0x80008000u, fallen = 0, nearest = ~0u;

  __device__ __forceinline__ void add(const Pack<16>& p) {
    risen = __vimax3_s16x2(risen, p.word[0], p.word[1]);
    risen = __vimax3_s16x2(risen, p.word[2], p.word[3]);
    fallen = __vimax3_u16x2(fallen, p.word[0], p.word[1]);
    fallen = __vimax3_u16x2(fallen, p.word[2], p.word[3]);
  }
  // Then the one nearest to 0 is the largest, and packs have to be looked at again.
  __device__ __forceinline__ bool all_negative() const {
    return (risen & 0x80008000u) == 0x80008000u;
  }
  __device__ __forceinline__ void add_negative(const Pack<16>& p) {
    nearest = __vimin3_u16x2(nearest, p.word[0], p.word[1]);
    nearest = __vimin3_u16x2(nearest, p.word[2], p.word[3]);
  }
  // A lower bound of all, or NaN.
  __device__ __forceinline__ float least() const {
    const std::uint32_t v = max(fallen >> 16, fallen & 0xffffu);
    return v >= 0x8000u ? number(v) : 0.0f;
  }
  // NaN where one is: a positive one has risen most, a negative one fallen most.
  __device__ __forceinline__ float largest() const {
    const int high = static_cast<int>(risen) >> 16, low = static_cast<std::int16_t>(risen);
    return larger(number(all_negative() ? min(nearest >> 16, nearest & 0xffffu)
                                        : static_cast<std::uint32_t>(max(high, low))),
                  least());
  }

 private:
  __device__ static __forceinline__ float number(std::uint32_t pattern) {
    return widen(T::from_bits(static_cast<std::uint16_t>(pattern)));
  }
};

}  // namespace planck::row_device
