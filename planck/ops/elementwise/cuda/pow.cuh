// pow of f32, f16 and bf16, a pack at once: usual arguments have no special cases, and whether all
// are usual, or one is negative, is tested once per pack.
//
// 2^26 elements on an H200, share of a copy:                    any base           positive
//                                                            f32  bf16   f16    f32  bf16   f16
//   all cases for each element                              0.65  0.68  0.75
//   usual arguments first                                   0.80  0.75  0.82   0.86  0.86  0.94
//   powers of two and a table instead of e and a division
//     (math/log2.h)                                         0.98  0.76         0.99  0.88
//   a table for the logarithm of bf16 (math/log2_of_bf16.h)       0.86               0.95
//   signs and special bases of two 16-bit numbers at once         0.99  0.95         0.99  1.00
#pragma once

#include "planck/ops/elementwise/cuda/map.cuh"
#include "planck/ops/elementwise/elementwise.math.h"

namespace planck::elementwise_device {

namespace em = elementwise_math;

template <class F, class T>
struct Binary;

template <class T>
__device__ __noinline__ float unusual_power(float a, float b) {
  return em::binary_of<em::Pow, T>(a, b);
}

template <>
struct Binary<em::Pow, float> {
  using A = float;
  using B = float;
  using C = None;
  using Out = float;
  static constexpr bool kHasPack = true;
  __device__ __forceinline__ float operator()(float a, float b, None) const {
    return em::binary_of<em::Pow, float>(a, b);
  }
  template <int V>
  __device__ __forceinline__ void pack(const float (&a)[V], const float (&b)[V],
                                       float (&y)[V]) const {
    using namespace math::usual;
    std::uint32_t base = 0, signs = 0;
    float most = 0;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      const Power p = power_of(math::abs_of(a[e]), b[e]);
      base = max(base, base_of(a[e]));
      most = math::at_least(math::abs_of(p.exponent), most);  // NaN where b is
      signs |= math::bits_of(a[e]);
      y[e] = p.size;
    }
    bool unusual = base > kBase || !(most <= kNear);
    if (signs >> 31 != 0) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < V; ++e) {
        sum += math::abs_of(b[e]);
        y[e] = with_sign_of_power(y[e], a[e], b[e]);
      }
      unusual |= sum > kEven;
    }
    if (unusual) {
#pragma unroll
      for (int e = 0; e < V; ++e) y[e] = unusual_power<float>(a[e], b[e]);
    }
  }
};

// Two 16-bit floats in a word, both halves at once.
template <class T>
struct Halves;
template <>
struct Halves<f16> {
  using Pair = __half2;
  static constexpr std::uint32_t kSmallest = 0x0001, kLargest = 0x7bff;  // usual bases
  static constexpr std::uint32_t kWhole = 0x6400;                        // 2^10
  static constexpr std::uint32_t kNan = 0x7e00;
};
template <>
struct Halves<bf16> {
  using Pair = __nv_bfloat162;
  static constexpr std::uint32_t kSmallest = 0x0080, kLargest = 0x7f7f;
  static constexpr std::uint32_t kWhole = 0x4300;  // 2^7
  static constexpr std::uint32_t kNan = 0x7fc0;
};
constexpr std::uint32_t both(std::uint32_t half) { return half << 16 | half; }
__device__ __forceinline__ std::uint32_t larger_half(std::uint32_t word) {
  return max(word & 0xffffu, word >> 16);
}
// All ones in a half that is negative.
__device__ __forceinline__ std::uint32_t negative_halves(std::uint32_t word) {
  std::uint32_t mask;
  asm("prmt.b32 %0, %1, %1, 0xbb99;" : "=r"(mask) : "r"(word));
  return mask;
}

template <class T>
requires(sizeof(T) == 2) struct Binary<em::Pow, T> {
  using A = T;
  using B = T;
  using C = None;
  using Out = T;
  static constexpr bool kHasPack = true, kHasWords = true;
  __device__ __forceinline__ float operator()(float a, float b, None) const {
    return em::binary_of<em::Pow, T>(a, b);
  }

  template <int kBytes>
  __device__ __forceinline__ Pack<kBytes> words(const Pack<kBytes>& a,
                                                const Pack<kBytes>& b) const {
    using H = Halves<T>;
    constexpr int V = kBytes / 2;
    std::uint32_t base = 0, signs = 0;
    float most = 0, size[V];
    Pack<kBytes> y, sizes;
#pragma unroll
    for (int k = 0; k < V / 2; ++k) {
      sizes.word[k] = a.word[k] & 0x7fff7fffu;
      base = __viaddmax_u16x2(sizes.word[k], both(0x10000u - H::kSmallest), base);
      signs |= a.word[k];
    }
#pragma unroll
    for (int e = 0; e < V; ++e) {
      const auto p = math::narrow::usual::power_of<T>(element_of<T, kBytes>(sizes, e),
                                                      element_of<T, kBytes>(b, e));
      most = math::at_least(math::abs_of(p.exponent), most);  // NaN where b is
      size[e] = p.size;
    }
#pragma unroll
    for (int k = 0; k < V / 2; ++k)
      y.word[k] = rounded_pair<T, false>(size[2 * k], size[2 * k + 1]);
    bool unusual = larger_half(base) > H::kLargest - H::kSmallest || !(most <= math::usual::kNear);
    if ((signs & 0x80008000u) != 0) {
      std::uint32_t largest = 0;
#pragma unroll
      for (int k = 0; k < V / 2; ++k) {
        largest = __vmaxu2(largest, b.word[k] & 0x7fff7fffu);
        y.word[k] = with_signs(y.word[k], a.word[k], b.word[k] & 0x7fff7fffu);
      }
      unusual |= larger_half(largest) >= H::kWhole;
    }
    if (unusual) {
#pragma unroll
      for (int e = 0; e < V; ++e)
        size[e] = unusual_power<T>(element_of<T, kBytes>(a, e), element_of<T, kBytes>(b, e));
      y = packed<T, kBytes>(size);
    }
    return y;
  }
  template <int V>
  __device__ __forceinline__ void pack(const float (&a)[V], const float (&b)[V],
                                       float (&y)[V]) const {
    const auto p = words(packed<T, 2 * V>(a), packed<T, 2 * V>(b));
#pragma unroll
    for (int e = 0; e < V; ++e) y[e] = element_of<T, 2 * V>(p, e);
  }

 private:
  // With the signs of odd powers; NaN for a negative x and a y that is not whole. The size of y is
  // less than kWhole: the last bit of their sum says whether it is odd.
  __device__ __forceinline__ static std::uint32_t with_signs(std::uint32_t sizes, std::uint32_t x,
                                                             std::uint32_t y) {
    using Pair = typename Halves<T>::Pair;
    const auto as_pair = [](std::uint32_t w) { return *reinterpret_cast<const Pair*>(&w); };
    const auto as_word = [](Pair p) { return *reinterpret_cast<const std::uint32_t*>(&p); };
    const Pair whole = as_pair(both(Halves<T>::kWhole)), shifted = __hadd2_rn(as_pair(y), whole);
    const std::uint32_t nan =
        __hneu2_mask(__hsub2_rn(shifted, whole), as_pair(y)) & negative_halves(x);
    const std::uint32_t odd = as_word(shifted) << 15 & x & 0x80008000u;
    return ((sizes | odd) & ~nan) | (both(Halves<T>::kNan) & nan);
  }
};

}  // namespace planck::elementwise_device
