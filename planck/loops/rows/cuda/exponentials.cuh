// exp on the device where something is known of its argument: in f32 the bits of math::exp with
// half of its instructions. NaN stays one of any sign. And extremes of packs.
#pragma once

#include "planck/loops/cuda/floats.cuh"
#include "planck/math/exp_terms.h"

namespace planck::row_device {

using math::exp_below;
using math::exp_near;
inline constexpr float kNear = math::kExpNear;
static_assert(kNear <= math::kTermNear);
template <class C>
__device__ __forceinline__ C term_near(C z) {
  return math::exp_term_near(z);
}

// NaN where either is; +0 is above -0.
__device__ __forceinline__ float larger(float a, float b) {
  float v;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}

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
