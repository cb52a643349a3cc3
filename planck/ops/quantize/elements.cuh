// Between stored and computed values on the device: packs of elements in registers.
//
//   16-bit floats   converted by the hardware, which rounds as planck::f16 and bf16 do. NaN comes
//                   out as another pattern and is replaced by the canonical one.
//   integers        q − q_lowest is not negative, so a word of packed values is a sum of shifted
//                   terms, and an unpacked one is the mantissa of a float: no byte shuffles.
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

// R elements of S.
template <class S, int R>
inline constexpr int kRunBytes = R* kBits<S> / 8;
template <class S, int R>
using RunPack = Pack<kRunBytes<S, R>>;

struct GridAttributes {
  std::int32_t q_min, q_max;
  std::int32_t bias;  // −(lowest value of the integer dtype): 128, 0, 8, 0 for s8, u8, s4, u4
  bool reciprocal;    // QuantMath::reciprocal
};

// ---- floats ----------------------------------------------------------------------------

__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ double widen(double v) { return v; }
__device__ __forceinline__ float widen(f16 v) { return __half2float(__ushort_as_half(v.bits)); }
__device__ __forceinline__ float widen(bf16 v) {
  return __uint_as_float(static_cast<std::uint32_t>(v.bits) << 16);
}

template <class T>
__device__ __forceinline__ T load_scale(const T* p) {
  if constexpr (sizeof(T) == 2)
    return T::from_bits(load_early(reinterpret_cast<const std::uint16_t*>(p)));
  else
    return load_early(p);
}

// Element e of a pack.
template <class T, int kBytes>
__device__ __forceinline__ Compute<T> float_at(const Pack<kBytes>& p, int e) {
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

// Two values rounded to T, the first in the low half. kNan: one may be NaN, stored as the
// canonical one.
template <class T, bool kNan>
__device__ __forceinline__ std::uint32_t narrow_pair(float low, float high) {
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

// Elements e and e + 1 of a pack. NaN must be canonical already where T is f32 or f64.
template <class T, bool kNan, int kBytes>
__device__ __forceinline__ void put_floats(Pack<kBytes>& p, int e, Compute<T> v0, Compute<T> v1) {
  if constexpr (std::is_same_v<T, float>) {
    p.word[e] = __float_as_uint(v0);
    p.word[e + 1] = __float_as_uint(v1);
  } else if constexpr (std::is_same_v<T, double>) {
    p.word[2 * e] = static_cast<std::uint32_t>(__double2loint(v0));
    p.word[2 * e + 1] = static_cast<std::uint32_t>(__double2hiint(v0));
    p.word[2 * e + 2] = static_cast<std::uint32_t>(__double2loint(v1));
    p.word[2 * e + 3] = static_cast<std::uint32_t>(__double2hiint(v1));
  } else {
    p.word[e / 2] = narrow_pair<T, kNan>(v0, v1);
  }
}

template <class T>
__device__ __forceinline__ T narrow(Compute<T> v) {
  if constexpr (sizeof(T) == 2)
    return T::from_bits(static_cast<std::uint16_t>(narrow_pair<T, true>(v, v)));
  else
    return v;
}

// ---- quantized integers ----------------------------------------------------------------

// A value in every byte, or nibble, of a word.
template <class S>
__device__ __forceinline__ std::uint32_t in_each(std::uint32_t value) {
  return value * (std::is_same_v<S, Nibbles> ? 0x11111111u : 0x01010101u);
}

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

// Element e of a pack: kMantissaOrigin + q + bias.
template <class S, class C, int kBytes>
__device__ __forceinline__ C integer_at(const Pack<kBytes>& p, int e, const GridAttributes& grid) {
  constexpr int kPerWord = 32 / kBits<S>, kWidth = kBits<S>;
  const std::uint32_t w = p.word[e / kPerWord] ^ in_each<S>(static_cast<std::uint32_t>(grid.bias));
  return mantissa((w >> (e % kPerWord * kWidth)) & ((1u << kWidth) - 1), C());
}

// Element e of a pack of any storage.
template <class S, class C, int kBytes>
__device__ __forceinline__ C value_at(const Pack<kBytes>& p, int e, const GridAttributes& grid) {
  if constexpr (kIsInteger<S>)
    return integer_at<S, C>(p, e, grid);
  else if constexpr (std::is_same_v<S, None>)
    return C(0);
  else
    return float_at<S>(p, e);
}

}  // namespace planck::quantize_device
