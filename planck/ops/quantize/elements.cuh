// Between stored and computed values on the device, and the quick forms of the element math.
//
// Everything here gives the values of quantize.math.h, bit for bit; only the way there differs:
//
//   16-bit floats   converted by the hardware, which rounds as planck::f16 and bf16 do. NaN comes
//                   out as another pattern and is replaced by the canonical one.
//   integers        q − q_lowest is not negative, so a word of packed values is a sum of shifted
//                   terms, and an unpacked one is the mantissa of a float: no byte shuffles.
//   quick groups    those with an ordinary scale and a zero point within [q_min, q_max]: the
//   rounded
//                   quotient comes from the reciprocal. All other groups take the careful way.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "planck/loops/pack.cuh"
#include "planck/ops/quantize/quantize.math.h"

namespace planck::quantize_device {

namespace qm = quantize_math;

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Quantized integers by their width; signedness is the attribute `bias`.
struct Bytes {};
struct Nibbles {};
struct None {};  // an operand that an op does not have

template <class S>
inline constexpr int kBits = 8 * static_cast<int>(sizeof(S));
template <>
inline constexpr int kBits<Bytes> = 8;
template <>
inline constexpr int kBits<Nibbles> = 4;
template <>
inline constexpr int kBits<None> = 8;

template <class S>
inline constexpr bool kIsInteger = std::is_same_v<S, Bytes> || std::is_same_v<S, Nibbles>;

// A value in every byte, or nibble, of a word.
template <class S>
inline constexpr std::uint32_t kEach = std::is_same_v<S, Nibbles> ? 0x11111111u : 0x01010101u;

struct GridAttributes {
  std::int32_t q_min, q_max;
  std::int32_t bias;  // −(lowest value of the integer dtype): 128, 0, 8, 0 for s8, u8, s4, u4
  bool reciprocal;    // QuantMath::reciprocal
};

// ---- floats
// --------------------------------------------------------------------------------------

__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ double widen(double v) { return v; }
__device__ __forceinline__ float widen(f16 v) { return __half2float(__ushort_as_half(v.bits)); }
__device__ __forceinline__ float widen(bf16 v) {
  return __uint_as_float(static_cast<std::uint32_t>(v.bits) << 16);
}

template <class T, int R>
__device__ __forceinline__ void unpack(const Pack<R * sizeof(T)>& p, Compute<T> (&v)[R]) {
#pragma unroll
  for (int e = 0; e < R; ++e) {
    if constexpr (std::is_same_v<T, float>) {
      v[e] = __uint_as_float(p.word[e]);
    } else if constexpr (std::is_same_v<T, double>) {
      v[e] = __hiloint2double(static_cast<int>(p.word[2 * e + 1]), static_cast<int>(p.word[2 * e]));
    } else if constexpr (std::is_same_v<T, bf16>) {
      v[e] = __uint_as_float(e % 2 ? p.word[e / 2] & 0xffff0000u : p.word[e / 2] << 16);
    } else {
      const std::uint32_t w = p.word[e / 2];
      v[e] = widen(f16::from_bits(static_cast<std::uint16_t>(e % 2 ? w >> 16 : w)));
    }
  }
}

// Two values rounded to T, the first in the low half; NaN canonical.
template <class T>
__device__ __forceinline__ std::uint32_t narrow_pair(float low, float high) {
  std::uint32_t word, nan, canonical;
  if constexpr (std::is_same_v<T, f16>) {
    const __half2 h = __floats2half2_rn(low, high);
    word = *reinterpret_cast<const std::uint32_t*>(&h);
    nan = __hneu2_mask(h, h);
    canonical = 0x7e007e00u;
  } else {
    const __nv_bfloat162 h = __floats2bfloat162_rn(low, high);
    word = *reinterpret_cast<const std::uint32_t*>(&h);
    nan = __hneu2_mask(h, h);
    canonical = 0x7fc07fc0u;
  }
  return (word & ~nan) | (canonical & nan);
}

// v: NaN already canonical where T is f32 or f64.
template <class T, int R>
__device__ __forceinline__ Pack<R * sizeof(T)> pack(const Compute<T> (&v)[R]) {
  Pack<R * sizeof(T)> p;
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int e = 0; e < R; ++e) p.word[e] = __float_as_uint(v[e]);
  } else if constexpr (std::is_same_v<T, double>) {
#pragma unroll
    for (int e = 0; e < R; ++e) {
      p.word[2 * e] = static_cast<std::uint32_t>(__double2loint(v[e]));
      p.word[2 * e + 1] = static_cast<std::uint32_t>(__double2hiint(v[e]));
    }
  } else {
#pragma unroll
    for (int e = 0; e < R; e += 2) p.word[e / 2] = narrow_pair<T>(v[e], v[e + 1]);
  }
  return p;
}

template <class T>
__device__ __forceinline__ T narrow(Compute<T> v) {
  if constexpr (sizeof(T) == 2)
    return T::from_bits(static_cast<std::uint16_t>(narrow_pair<T>(v, v)));
  else
    return v;
}

// ---- quantized integers
// --------------------------------------------------------------------------

// Unsigned integers of up to 22 bits as the mantissa of a number with a known exponent.
__device__ __forceinline__ float mantissa(std::uint32_t u, float) {
  return __uint_as_float(0x4b000000u | u);
}
__device__ __forceinline__ double mantissa(std::uint32_t u, double) {
  return __hiloint2double(0x43300000, static_cast<int>(u));
}
template <class C>
inline constexpr C kMantissaOrigin = C(8388608);  // 2^23
template <>
inline constexpr double kMantissaOrigin<double> = 4503599627370496.0;  // 2^52

// kMantissaOrigin + q + bias
template <class S, class C, int R>
__device__ __forceinline__ void unpack_integers(const Pack<R * kBits<S> / 8>& p,
                                                const GridAttributes& grid, C (&v)[R]) {
  constexpr int kPerWord = 32 / kBits<S>;
  const std::uint32_t flip = static_cast<std::uint32_t>(grid.bias) * kEach<S>;
#pragma unroll
  for (int e = 0; e < R; ++e) {
    const std::uint32_t w = p.word[e / kPerWord] ^ flip;
    const std::uint32_t u = (w >> (e % kPerWord * kBits<S>)) & ((1u << kBits<S>)-1);
    v[e] = mantissa(u, C());
  }
}

// steps[e] = q − z. zeros[w]: the sum over the elements of word w of (z + bias) << position.
template <class S, int R>
__device__ __forceinline__ Pack<R * kBits<S> / 8> pack_integers(const std::int32_t (&steps)[R],
                                                                const std::uint32_t* zeros,
                                                                const GridAttributes& grid) {
  constexpr int kPerWord = 32 / kBits<S>;
  const std::uint32_t flip = static_cast<std::uint32_t>(grid.bias) * kEach<S>;
  Pack<R * kBits<S> / 8> p;
#pragma unroll
  for (int w = 0; w < Pack<R * kBits<S> / 8>::kWords; ++w) {
    std::uint32_t sum = 0;
#pragma unroll
    for (int e = kPerWord - 1; e >= 0; --e)
      if (w * kPerWord + e < R)
        sum = (sum << kBits<S>)+static_cast<std::uint32_t>(steps[w * kPerWord + e]);
    p.word[w] = (sum + zeros[w]) ^ flip;
  }
  return p;
}

// ---- groups
// --------------------------------------------------------------------------------------

// A group as one thread holds it; what an op does not use takes no register.
template <class T>
struct Cell {
  using C = Compute<T>;
  C scale, inverse, lo, hi;  // see quantize_math::Group
  C x_lo, x_hi;  // (lo − margin) · s and (hi + margin) · s; lo and hi for reciprocal
  std::int32_t z;
  bool quick;
};

// margin: 0 where x is clamped to the range, 1 where the clamped x must stay outside of it.
template <class T>
__device__ __forceinline__ Cell<T> make_cell(Compute<T> scale, std::int32_t z, int margin,
                                             const GridAttributes& grid) {
  using C = Compute<T>;
  const qm::Group<C> g = qm::make_group<C>(scale, z, grid.q_min, grid.q_max);
  Cell<T> c{g.scale, g.inverse, g.lo, g.hi, C(0), C(0), z, g.ordinary};
  if constexpr (std::is_same_v<C, float>) {
    const float unit = grid.reciprocal ? 1.0f : scale;
    c.x_lo = (g.lo - static_cast<float>(margin)) * unit;
    c.x_hi = (g.hi + static_cast<float>(margin)) * unit;
    c.quick = g.ordinary && g.lo <= 0.0f && g.hi >= 0.0f &&
              (grid.reciprocal || qm::has_ordinary_quotient(scale));
  }
  return c;
}

// ---- positions on the grid
// -----------------------------------------------------------------------

enum class Way : std::uint8_t { divide, reciprocal, careful };

// x / s rounded, for ordinary scales. 16-bit operands need one correction only: m1 / m2 of two
// 11-bit integers is never a rounding tie of f32, and at least 2^−12 of a unit away from any;
// the corrected value before its last rounding is within 2^−22.
template <class T>
__device__ __forceinline__ float quick_quotient(float x, float scale, float inverse) {
  if constexpr (std::is_same_v<T, float>) return qm::ordinary_quotient(x, scale, inverse);
  const float q = x * inverse;
  return qm::fma_of(qm::fma_of(-q, scale, x), inverse, q);
}

// max(lo, min(hi, x)); NaN stays.
__device__ __forceinline__ float clamp(float x, float lo, float hi) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(x), "f"(lo));
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(c), "f"(hi));
  return c;
}

template <Way kWay, class C>
__device__ __forceinline__ C position(C x, C scale, C inverse, const GridAttributes& grid) {
  if constexpr (kWay == Way::reciprocal) return x * inverse;
  if constexpr (kWay == Way::divide) return x / scale;
  return grid.reciprocal ? x * inverse : x / scale;
}

// q − z as an integer, modulo 2^32.
template <Way kWay, class T>
__device__ __forceinline__ std::int32_t steps_of(Compute<T> x, const Cell<T>& c,
                                                 const GridAttributes& grid) {
  if constexpr (kWay == Way::careful) {
    const auto v = position<kWay>(x, c.scale, c.inverse, grid);
    return static_cast<std::int32_t>(
        static_cast<std::uint32_t>(qm::quantized(v, c.z, grid.q_min, grid.q_max)) -
        static_cast<std::uint32_t>(c.z));
  } else if constexpr (std::is_same_v<T, double>) {
    const double v = position<kWay>(x, c.scale, c.inverse, grid);
    return __double2int_rn(qm::ordinary_steps(v, c.lo, c.hi));
  } else if constexpr (kWay == Way::reciprocal) {
    return __float2int_rn(clamp(x * c.inverse, c.x_lo, c.x_hi));  // NaN converts to 0
  } else {
    return __float2int_rn(quick_quotient<T>(clamp(x, c.x_lo, c.x_hi), c.scale, c.inverse));
  }
}

template <Way kWay, class T>
__device__ __forceinline__ bool inside_of(Compute<T> x, const Cell<T>& c,
                                          const GridAttributes& grid) {
  if constexpr (kWay == Way::careful) {
    return qm::in_range(position<kWay>(x, c.scale, c.inverse, grid), c.z, grid.q_min, grid.q_max);
  } else if constexpr (std::is_same_v<T, double> || kWay == Way::reciprocal) {
    const auto t = qm::rint_of(position<kWay>(x, c.scale, c.inverse, grid));
    return t >= c.lo && t <= c.lo + static_cast<Compute<T>>(grid.q_max - grid.q_min);
  } else {
    constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: the sum has no room for a fraction
    const float t = quick_quotient<T>(clamp(x, c.x_lo, c.x_hi), c.scale, c.inverse) + kRound;
    const float above = t - (c.lo + kRound);  // exact: q − q_min
    return above >= 0.0f && above <= static_cast<float>(grid.q_max - grid.q_min);
  }
}

}  // namespace planck::quantize_device
