// 16-bit floating point storage types: IEEE binary16 (f16) and bfloat16 (bf16).
//
// Promise: conversions from f32 and f64 are correctly rounded (nearest, ties to even), in one
// rounding; widening is exact. Subnormals are kept, infinities stay infinite, overflow gives
// infinity. NaN stays NaN: the sign and the leading payload bits are kept and the quiet bit is set.
// The code is integer arithmetic alone, so host and device agree bit for bit on every pattern.
// There is no arithmetic here: kernels compute in f32.
#pragma once

#include <bit>
#include <cstdint>

#include "planck/core/macros.h"

namespace planck {

namespace half_detail {

PLANCK_HD std::uint32_t bits_of(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  return std::bit_cast<std::uint32_t>(x);
#endif
}
PLANCK_HD float f32_from_bits(std::uint32_t x) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(x);
#else
  return std::bit_cast<float>(x);
#endif
}
PLANCK_HD std::uint64_t bits_of(double x) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint64_t>(__double_as_longlong(x));
#else
  return std::bit_cast<std::uint64_t>(x);
#endif
}

// Shifts right and rounds to nearest, ties to even. 0 < shift; a shift past the width gives 0.
template <class U>
PLANCK_HD U shift_round(U value, int shift) {
  constexpr int kWidth = static_cast<int>(sizeof(U) * 8);
  if (shift >= kWidth) return 0;
  const U floor = value >> shift;
  const U rest = value & ((U{1} << shift) - 1);
  const U half = U{1} << (shift - 1);
  return floor + static_cast<U>(rest > half || (rest == half && (floor & 1)));
}

// A wide IEEE pattern to a narrow one of 16 bits.
//   U: the wide bits, MW/EW: its mantissa and exponent widths; MN/EN: those of the narrow format.
template <class U, int MW, int EW, int MN, int EN>
PLANCK_HD std::uint16_t narrow(U wide) {
  constexpr int kBiasW = (1 << (EW - 1)) - 1, kBiasN = (1 << (EN - 1)) - 1;
  constexpr int kMaxN = (1 << EN) - 1;
  const auto sign = static_cast<std::uint16_t>((wide >> (MW + EW)) << 15);
  const int exponent = static_cast<int>((wide >> MW) & ((U{1} << EW) - 1));
  const U mantissa = wide & ((U{1} << MW) - 1);
  const auto infinity = static_cast<std::uint16_t>(sign | (kMaxN << MN));
  if (exponent == (1 << EW) - 1) {
    if (mantissa == 0) return infinity;
    return static_cast<std::uint16_t>(infinity | (1 << (MN - 1)) | (mantissa >> (MW - MN)));
  }
  const int target = exponent - kBiasW + kBiasN;  // the biased exponent in the narrow format
  if (target >= kMaxN) return infinity;
  U rounded;
  if (target > 0) {
    // A carry out of the mantissa runs into the exponent, up to infinity, as it must.
    rounded = shift_round<U>((static_cast<U>(target) << MW) | mantissa, MW - MN);
  } else {
    const U full = exponent == 0 ? mantissa : (U{1} << MW) | mantissa;
    // A wide subnormal has the exponent of the smallest normal.
    const int shift = (MW - MN) + 1 - target - static_cast<int>(exponent == 0);
    rounded = shift_round<U>(full, shift);
  }
  return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(rounded));
}

// Exact widening of an f16 pattern to f32; a signaling NaN becomes quiet.
PLANCK_HD float widen_f16(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t magnitude = h & 0x7fffu;
  // Branch-free for the vectorizer: normal numbers are rebiased, subnormals are an exact product,
  // NaN and Inf last.
  const std::uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
  const std::uint32_t subnormal =
      bits_of(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  const std::uint32_t special =
      0x7f800000u | ((magnitude & 0x3ffu) << 13) | ((magnitude & 0x3ffu) ? 0x00400000u : 0u);
  std::uint32_t wide = magnitude < 0x400u ? subnormal : normal;
  wide = magnitude >= 0x7c00u ? special : wide;
  return f32_from_bits(sign | wide);
}

// f32 to bf16 is the same with one exponent range: rounding is an integer addition, branch-free.
// The sum holds the result in its upper half. NaN: the canonical one alone.
PLANCK_HD std::uint32_t round_to_bf16(std::uint32_t wide) {
  return wide + 0x7fffu + ((wide >> 16) & 1u);
}
PLANCK_HD std::uint16_t narrow_bf16(float x) {
  const std::uint32_t wide = bits_of(x);
  const std::uint32_t rounded = round_to_bf16(wide) >> 16;
  const std::uint32_t nan = (wide >> 16) | 0x0040u;
  return static_cast<std::uint16_t>((wide & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

PLANCK_HD float widen_bf16(std::uint16_t h) {
  const std::uint32_t wide = static_cast<std::uint32_t>(h) << 16;
  return f32_from_bits((wide & 0x7fffffffu) > 0x7f800000u ? wide | 0x00400000u : wide);
}

}  // namespace half_detail

struct f16 {
  std::uint16_t bits;

  f16() = default;
  PLANCK_HD explicit f16(float x)
      : bits(half_detail::narrow<std::uint32_t, 23, 8, 10, 5>(half_detail::bits_of(x))) {}
  PLANCK_HD explicit f16(double x)
      : bits(half_detail::narrow<std::uint64_t, 52, 11, 10, 5>(half_detail::bits_of(x))) {}
  PLANCK_HD static f16 from_bits(std::uint16_t pattern) {
    f16 h;
    h.bits = pattern;
    return h;
  }
  PLANCK_HD explicit operator float() const { return half_detail::widen_f16(bits); }
  PLANCK_HD explicit operator double() const {
    return static_cast<double>(half_detail::widen_f16(bits));
  }
};

struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  PLANCK_HD explicit bf16(float x) : bits(half_detail::narrow_bf16(x)) {}
  PLANCK_HD explicit bf16(double x)
      : bits(half_detail::narrow<std::uint64_t, 52, 11, 7, 8>(half_detail::bits_of(x))) {}
  PLANCK_HD static bf16 from_bits(std::uint16_t pattern) {
    bf16 h;
    h.bits = pattern;
    return h;
  }
  PLANCK_HD explicit operator float() const { return half_detail::widen_bf16(bits); }
  PLANCK_HD explicit operator double() const {
    return static_cast<double>(half_detail::widen_bf16(bits));
  }
};

static_assert(sizeof(f16) == 2 && sizeof(bf16) == 2);

}  // namespace planck
