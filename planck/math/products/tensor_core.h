// ProductMath::tensor_core: what the tensor cores of Hopper compute, as integer arithmetic for host
// and device.
//
//   c = +0, then for each block of k, ascending: c = add_block(c, a, b)
//
// A block has 16 products (TF32: 8); where k ends within one, zeros fill it. Its terms are the
// products and c. A term has an exponent e, for a product the sum of its factors' exponents (not
// normalized; a subnormal factor has the smallest exponent). With E the largest e of the terms that
// are not zero, and at least -133,
//
//   - each term is cut toward zero to a multiple of 2^(E - 25),
//   - these are added exactly,
//   - the sum is cut toward zero to f32, also where that is subnormal; past the largest f32 it is
//     infinite, and a zero is +0, whatever the signs of the terms and of what was cut away.
//
// NaN anywhere, Inf · 0 and +Inf with -Inf give NaN; other infinities give themselves. The device
// has the NaN 7fffffff; here and there kernels store the canonical one, at the end.
//
// TF32 is f32 without its low 13 bits, which are dropped, not rounded. So a NaN whose payload lies
// in these alone reads as Inf, and a subnormal below 2^-136 as zero.
#pragma once

#include <cstdint>

#include "planck/math/float_bits.h"

namespace planck::math::tensor_core {

// What lies in memory is Bits; kDropped of its low bits are not looked at.
struct Bf16 {
  using Bits = std::uint16_t;
  static constexpr int kMantissa = 7, kExponent = 8, kDropped = 0, kBlock = 16;
};
struct F16 {
  using Bits = std::uint16_t;
  static constexpr int kMantissa = 10, kExponent = 5, kDropped = 0, kBlock = 16;
};
struct Tf32 {
  using Bits = std::uint32_t;
  static constexpr int kMantissa = 10, kExponent = 8, kDropped = 13, kBlock = 8;
};

inline constexpr int kKept = 25;        // bits below the largest exponent
inline constexpr int kLeast = -133;     // the smallest E
inline constexpr int kNoTerm = -10000;  // the exponent of a term that is zero

// ± magnitude 2^(exponent - kMantissa), or not finite.
struct Factor {
  std::uint32_t magnitude, negative;
  int exponent;
  bool finite;
};
template <class Format>
PLANCK_HD Factor factor_of(typename Format::Bits stored) {
  constexpr int kM = Format::kMantissa, kX = Format::kExponent;
  constexpr std::uint32_t kTop = (1u << kX) - 1;
  constexpr int kBias = (1 << (kX - 1)) - 1;
  const std::uint32_t bits = static_cast<std::uint32_t>(stored) >> Format::kDropped;
  const std::uint32_t exponent = (bits >> kM) & kTop, mantissa = bits & ((1u << kM) - 1);
  return {mantissa | (exponent != 0 ? 1u << kM : 0u), (bits >> (kM + kX)) & 1u,
          static_cast<int>(exponent != 0 ? exponent : 1u) - kBias, exponent != kTop};
}

// A term of a block: ± magnitude 2^(exponent - 25), magnitude below 2^27.
struct Term {
  std::uint32_t magnitude, negative;
  int exponent;
};
template <class Format>
PLANCK_HD Term term_of(const Factor& a, const Factor& b) {
  const std::uint32_t product = a.magnitude * b.magnitude;
  return {product << (kKept - 2 * Format::kMantissa), a.negative ^ b.negative,
          product != 0 ? a.exponent + b.exponent : kNoTerm};
}
PLANCK_HD Term term_of_sum(float c) {
  const std::uint32_t bits = bits_of(c), exponent = (bits >> 23) & 0xffu;
  const std::uint32_t magnitude = (bits & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u);
  return {magnitude << (kKept - 23), bits >> 31,
          magnitude != 0 ? static_cast<int>(exponent != 0 ? exponent : 1u) - 127 : kNoTerm};
}
// A term in units of 2^(largest - 25), toward zero.
PLANCK_HD std::int64_t placed(const Term& t, int largest) {
  const int by = largest - t.exponent;
  const auto kept = static_cast<std::int64_t>(t.magnitude >> (by < 31 ? by : 31));
  return t.negative != 0 ? -kept : kept;
}

// sum · 2^exponent, toward zero; |sum| < 2^63. Infinite past the largest f32.
PLANCK_HD float cut_to_f32(std::int64_t sum, int exponent) {
  if (sum == 0) return 0.0f;
  const std::uint32_t sign = sum < 0 ? 0x80000000u : 0u;
  const std::uint64_t magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
#if defined(__CUDA_ARCH__)
  const int top = 63 - __clzll(static_cast<long long>(magnitude));
#else
  const int top = 63 - __builtin_clzll(magnitude);
#endif
  if (top + exponent > 127) return from_bits(sign | 0x7f800000u);
  // The unit of the result's last bit is 2^unit.
  const int unit = top + exponent - 23 < -149 ? -149 : top + exponent - 23;
  const int drop = unit - exponent;
  const std::uint64_t kept = drop <= 0 ? magnitude << -drop : drop < 64 ? magnitude >> drop : 0;
  if (kept == 0) return 0.0f;
  // The hidden bit of a normal number adds 1 to the exponent field.
  return from_bits(
      sign | ((static_cast<std::uint32_t>(unit + 149) << 23) + static_cast<std::uint32_t>(kept)));
}

// What becomes of the terms that are not finite: no order matters.
struct NotFinite {
  bool nan = false, positive = false, negative = false;

  PLANCK_HD void add(bool is_nan, bool is_negative) {
    nan = nan || is_nan;
    positive = positive || (!is_nan && !is_negative);
    negative = negative || (!is_nan && is_negative);
  }
  PLANCK_HD bool any() const { return nan || positive || negative; }
  PLANCK_HD float value() const {
    if (nan || (positive && negative)) return nan_of(0.0f);
    return positive ? infinity_of(0.0f) : -infinity_of(0.0f);
  }
};
template <class Format>
PLANCK_HD void add_not_finite(NotFinite& found, const Factor& a, const Factor& b) {
  if (a.finite && b.finite) return;
  constexpr std::uint32_t kInfinite = 1u << Format::kMantissa;
  const bool is_nan = (!a.finite && a.magnitude != kInfinite) ||
                      (!b.finite && b.magnitude != kInfinite) || a.magnitude == 0 ||
                      b.magnitude == 0;
  found.add(is_nan, a.negative != b.negative);
}

// One block: c and the products a[i] * b[i], i < kBlock.
template <class Format>
PLANCK_HD float add_block(float c, const typename Format::Bits (&a)[Format::kBlock],
                          const typename Format::Bits (&b)[Format::kBlock]) {
  NotFinite found;
  if ((bits_of(c) & 0x7f800000u) == 0x7f800000u)
    found.add((bits_of(c) & 0x7fffffu) != 0, bits_of(c) >> 31 != 0);
  const Term start = term_of_sum(c);
  Term terms[Format::kBlock];
  int largest = start.exponent > kLeast ? start.exponent : kLeast;
  for (int i = 0; i < Format::kBlock; ++i) {
    const Factor x = factor_of<Format>(a[i]), y = factor_of<Format>(b[i]);
    add_not_finite<Format>(found, x, y);
    terms[i] = term_of<Format>(x, y);
    largest = terms[i].exponent > largest ? terms[i].exponent : largest;
  }
  if (found.any()) return found.value();
  std::int64_t sum = placed(start, largest);
  for (int i = 0; i < Format::kBlock; ++i) sum += placed(terms[i], largest);
  return cut_to_f32(sum, largest - kKept);
}

// The same for `count` products, at most kBlock; the rest are zeros. Steps count elements.
template <class Format>
PLANCK_HD float add_products(float c, const typename Format::Bits* a, std::int64_t a_step,
                             const typename Format::Bits* b, std::int64_t b_step, int count) {
  typename Format::Bits x[Format::kBlock], y[Format::kBlock];
  for (int i = 0; i < Format::kBlock; ++i) {
    x[i] = i < count ? a[i * a_step] : typename Format::Bits{0};
    y[i] = i < count ? b[i * b_step] : typename Format::Bits{0};
  }
  return add_block<Format>(c, x, y);
}

// An element of C, before it is rounded to C's dtype.
template <class Format>
PLANCK_HD float product(const typename Format::Bits* a, std::int64_t a_step,
                        const typename Format::Bits* b, std::int64_t b_step, std::int64_t k) {
  float c = 0.0f;
  for (std::int64_t at = 0; at < k; at += Format::kBlock) {
    const int count = static_cast<int>(k - at < Format::kBlock ? k - at : Format::kBlock);
    c = add_products<Format>(c, a + at * a_step, a_step, b + at * b_step, b_step, count);
  }
  return canonical(c);
}

}  // namespace planck::math::tensor_core
