// ProductMath::exact: f32 products without an order, as integer arithmetic for host and device.
//
//   A row of A, or a column of B, has the exponent e of its largest magnitude m: m < 2^e, e as
//   small as that allows; 0 for a row of zeros.
//
//     q(x)    = rint(x · 2^(22 - e)), ties to even                      |q| <= 2^22
//     c[i, j] = (Σ q(a[i, k]) q(b[k, j])) · 2^(e_i + e_j - 44)          the sum exact, one rounding
//
// The last rounding is to nearest even, with subnormal and infinite results where they are due; a
// sum of zero is +0. Integers add up to the same in any order, by any hardware: in digits, q =
// 2^16 d0 + 2^8 d1 + d2 with -128 <= d <= 127, as products of s8; as f64 while they are below 2^53.
//
// A row or column with NaN or an infinity gives what IEEE 754 says of the sum in any order: NaN if
// a product is NaN or if +Inf and -Inf meet, else ±Inf.
//
// The error is bounded by norms, not by element (docs/numerics.md): an element below 2^-23 of its
// row's largest counts as zero.
#pragma once

#include <cstdint>

#include "planck/math/float_bits.h"

namespace planck::math::exact {

inline constexpr int kBits = 22;            // of the largest integer
inline constexpr int kNotFinite = 1 << 20;  // the exponent of a row with NaN or an infinity
inline constexpr std::int64_t kMostIn64Bits = std::int64_t{1} << 18;  // products of one int64 sum

PLANCK_HD int highest_bit(std::uint64_t x) {  // x > 0
#if defined(__CUDA_ARCH__)
  return 63 - __clzll(static_cast<long long>(x));
#else
  return 63 - __builtin_clzll(x);
#endif
}

// The bits of |x|: their order is that of magnitudes, infinities and NaN above all.
PLANCK_HD std::uint32_t magnitude_of(float x) { return bits_of(x) & 0x7fffffffu; }

// The exponent of a row from the largest of its magnitudes.
PLANCK_HD int exponent_of(std::uint32_t largest) {
  if (largest >= 0x7f800000u) return kNotFinite;
  if (largest == 0) return 0;
  if (largest >= 0x800000u) return static_cast<int>(largest >> 23) - 126;
  return highest_bit(largest) - 148;
}

// q(x) for a row of exponent e; x is finite and below 2^e.
PLANCK_HD std::int32_t rounded(float x, int e) {
  const std::uint32_t bits = magnitude_of(x), field = bits >> 23;
  const std::uint32_t mantissa = (bits & 0x7fffffu) | (field != 0 ? 0x800000u : 0u);
  const int shift = static_cast<int>(field != 0 ? field : 1u) - 150 + kBits - e;
  const std::uint32_t q =
      shift >= 0 ? mantissa << shift : half_detail::shift_round<std::uint32_t>(mantissa, -shift);
  return bits_of(x) >> 31 != 0 ? -static_cast<std::int32_t>(q) : static_cast<std::int32_t>(q);
}

// q = 2^16 high + 2^8 middle + low; |high| <= 65.
struct Digits {
  std::int8_t high, middle, low;
};
PLANCK_HD Digits digits_of(std::int32_t q) {
  const auto low = static_cast<std::int8_t>(q);
  const std::int32_t rest = (q - low) >> 8;
  const auto middle = static_cast<std::int8_t>(rest);
  return {static_cast<std::int8_t>((rest - middle) >> 8), middle, low};
}
// Σ qa qb from sums over digits: sums[d] is that of all products of digits i and j with i + j = d,
// where digit 0 is high.
PLANCK_HD std::int64_t joined(const std::int64_t (&sums)[5]) {
  return (((sums[0] * 256 + sums[1]) * 256 + sums[2]) * 256 + sums[3]) * 256 + sums[4];
}

// magnitude · 2^n, rounded to nearest even, with a sign. magnitude < 2^63.
PLANCK_HD float round_magnitude(std::uint64_t magnitude, bool negative, int n) {
  if (magnitude == 0) return 0.0f;
  const std::uint32_t sign = negative ? 0x80000000u : 0u;
  const int top = highest_bit(magnitude);
  if (top + n > 127) return from_bits(sign | 0x7f800000u);
  // The unit of the result's last bit is 2^unit.
  const int unit = top + n - 23 < -149 ? -149 : top + n - 23;
  const int drop = unit - n;
  const std::uint64_t kept =
      drop <= 0 ? magnitude << -drop : half_detail::shift_round<std::uint64_t>(magnitude, drop);
  // The hidden bit adds 1 to the exponent field, and so does a carry: up to infinity, as it must.
  return from_bits(
      sign | ((static_cast<std::uint32_t>(unit + 149) << 23) + static_cast<std::uint32_t>(kept)));
}

// sum · 2^n, rounded once. |sum| < 2^63: up to kMostIn64Bits products, and far beyond.
PLANCK_HD float round_exact(std::int64_t sum, int n) {
  return round_magnitude(static_cast<std::uint64_t>(sum < 0 ? -sum : sum), sum < 0, n);
}

// Sums of more products: two words, high · 2^64 + low.
struct Wide {
  std::int64_t high = 0;
  std::uint64_t low = 0;

  PLANCK_HD void add(std::int64_t v) {
    const std::uint64_t before = low;
    low += static_cast<std::uint64_t>(v);
    high += (v < 0 ? -1 : 0) + (low < before ? 1 : 0);
  }
};
PLANCK_HD float round_exact(Wide sum, int n) {  // |sum| < 2^125
  const bool negative = sum.high < 0;
  const std::uint64_t low = negative ? ~sum.low + 1 : sum.low;
  const std::uint64_t high = negative ? ~static_cast<std::uint64_t>(sum.high) + (low == 0 ? 1 : 0)
                                      : static_cast<std::uint64_t>(sum.high);
  // 62 bits or more are kept; the last says whether any below it were set, which is all that
  // rounding to 24 bits asks of them.
  const int drop = high != 0 ? highest_bit(high) + 2 : low >> 63 != 0 ? 1 : 0;
  if (drop == 0) return round_magnitude(low, negative, n);
  const std::uint64_t lost = low & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t kept = (high << (64 - drop)) | (low >> drop);
  return round_magnitude(kept | (lost != 0 ? 1u : 0u), negative, n + drop);
}

// The power of two of c[i, j]'s sum.
PLANCK_HD int exponent_of_sum(int row, int column) { return row + column - 2 * kBits; }

// c[i, j] where the row or the column is not finite. Steps count elements.
PLANCK_HD float not_finite(const float* a, std::int64_t a_step, const float* b, std::int64_t b_step,
                           std::int64_t k) {
  bool positive = false, negative = false;
  for (std::int64_t at = 0; at < k; ++at) {
    const float x = a[at * a_step], y = b[at * b_step];
    const std::uint32_t x_bits = magnitude_of(x), y_bits = magnitude_of(y);
    if (x_bits < 0x7f800000u && y_bits < 0x7f800000u) continue;
    if (x_bits > 0x7f800000u || y_bits > 0x7f800000u || x_bits == 0 || y_bits == 0)
      return nan_of(0.0f);
    ((bits_of(x) ^ bits_of(y)) >> 31 != 0 ? negative : positive) = true;
  }
  return positive && negative ? nan_of(0.0f) : positive ? infinity_of(0.0f) : -infinity_of(0.0f);
}

// c[i, j] as it is defined, from the exponents of its row and column.
PLANCK_HD float product(const float* a, std::int64_t a_step, int a_exponent, const float* b,
                        std::int64_t b_step, int b_exponent, std::int64_t k) {
  if (a_exponent == kNotFinite || b_exponent == kNotFinite)
    return not_finite(a, a_step, b, b_step, k);
  Wide sum;
  for (std::int64_t at = 0; at < k; ++at)
    sum.add(static_cast<std::int64_t>(rounded(a[at * a_step], a_exponent)) *
            rounded(b[at * b_step], b_exponent));
  return round_exact(sum, exponent_of_sum(a_exponent, b_exponent));
}

}  // namespace planck::math::exact
