// Between stored and computed values on the device: packs of elements in registers.
//
//   16-bit floats   see loops/cuda/floats.cuh
//   integers        q − q_lowest is not negative, so a word of packed values is a sum of shifted
//                   terms, and an unpacked one is the mantissa of a float: no byte shuffles.
#pragma once

#include "planck/loops/cuda/floats.cuh"
#include "planck/ops/quantize/quantize.math.h"

namespace planck::quantize_device {

namespace qm = quantize_math;
using planck::Compute;

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

template <class T>
__device__ __forceinline__ T load_scale(const T* p) {
  if constexpr (sizeof(T) == 2)
    return T::from_bits(load_early(reinterpret_cast<const std::uint16_t*>(p)));
  else
    return load_early(p);
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
    p.word[e / 2] = rounded_pair<T, kNan>(v0, v1);
  }
}

template <class T>
__device__ __forceinline__ T narrow(Compute<T> v) {
  if constexpr (sizeof(T) == 2)
    return T::from_bits(static_cast<std::uint16_t>(rounded_pair<T, true>(v, v)));
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
    return element_of<S>(p, e);
}

}  // namespace planck::quantize_device
