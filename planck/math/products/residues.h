// Integers from what they leave modulo small numbers: exact products (exact_product.h) without
// digits. A product of s8 gives a sum modulo m; seven or eight coprime m give the sum itself, as
// the Chinese remainder theorem has it.
//
//   M = m_0 m_1 … m_(n-1)        7: 2^55.7        8: 2^63.6
//   X = Σ r_i w_i - M rint(Σ r_i w_i / M)          where X = r_i (mod m_i), |X| < M / 2
//
// w_i is 1 modulo m_i and 0 modulo the others. Σ r_i w_i and X are computed modulo 2^64, the
// quotient from the fractions w_i / M in 20 bits, which is exact while |X| <= (1/2 - 2^-9) M.
#pragma once

#include <cmath>
#include <cstdint>

#include "planck/math/float_bits.h"

namespace planck::math::residues {

inline constexpr int kMost = 8, kFew = 7;                             // moduli
inline constexpr std::int64_t kMostProducts = std::int64_t{1} << 16;  // of a sum

PLANCK_HD constexpr std::uint32_t modulus(int i) {
  constexpr std::uint32_t kModuli[kMost] = {256, 255, 253, 251, 247, 241, 239, 233};
  return kModuli[i];
}

// A residue of q, |q| <= 2^22, is the low byte of a word, as s8: -128 to 127, for 256, and
// -(m - 1) / 2 to (m - 1) / 2 for the others. x is q in f32, y the bits of q + 3 2^22.
//
// q / m is as far from n + 1/2 as 1 / (2 m), and x times 1 / m rounded as near to q / m as 2^-10,
// so that what is subtracted is the nearest multiple. Only the low byte has to be right, where
// the bits of 3 2^22 have none.
inline constexpr float kShifting = 12582912.0f;
PLANCK_HD constexpr float inverse(int i) { return 1.0f / static_cast<float>(modulus(i)); }
PLANCK_HD std::uint32_t residue(float x, std::uint32_t y, int i) {
#if defined(__CUDA_ARCH__)
  const float nearest = __fmaf_rn(x, inverse(i), kShifting);
#else
  const float nearest = std::fma(x, inverse(i), kShifting);
#endif
  return y - modulus(i) * bits_of(nearest);
}

// What a sum of products leaves modulo m, from 0 to m, m itself for 0 here and there: its low byte
// is that of sum - m floor(sum 2^38 / m / 2^38). |sum| <= 2^30, as kMostProducts make it.
PLANCK_HD constexpr std::int32_t reciprocal(int i) {
  return static_cast<std::int32_t>(((std::uint64_t{1} << 38) + modulus(i) - 1) / modulus(i));
}
PLANCK_HD std::uint32_t reduced(std::int32_t sum, std::int32_t m, std::int32_t reciprocal) {
#if defined(__CUDA_ARCH__)
  const std::int32_t high = __mulhi(sum, reciprocal);
#else
  const auto high = static_cast<std::int32_t>((std::int64_t{sum} * reciprocal) >> 32);
#endif
  return static_cast<std::uint32_t>(sum) -
         static_cast<std::uint32_t>(m) * static_cast<std::uint32_t>(high >> 6);
}

struct Weights {
  std::uint64_t product = 1;          // M
  std::uint64_t weight[kMost] = {};   // w_i modulo 2^64
  std::int32_t fraction[kMost] = {};  // 2^20 w_i / M
};
template <int kCount>
PLANCK_HD constexpr Weights weights_of() {
  Weights w;
  for (int i = 0; i < kCount; ++i) w.product *= modulus(i);
  for (int i = 0; i < kCount; ++i) {
    const std::uint64_t others = w.product / modulus(i);
    const auto m = static_cast<std::int64_t>(modulus(i));
    std::int64_t inverse = 1;  // of the others' product, modulo m, from -m / 2 on
    while (others % modulus(i) * static_cast<std::uint64_t>(inverse) % modulus(i) != 1) ++inverse;
    if (2 * inverse > m) inverse -= m;
    w.weight[i] = others * static_cast<std::uint64_t>(inverse);
    w.fraction[i] =
        static_cast<std::int32_t>((inverse * (1 << 21) / m + (inverse > 0 ? 1 : -1)) / 2);
  }
  return w;
}

// The integer that leaves residue[i], 0 to 255, modulo the first kCount moduli.
template <int kCount>
PLANCK_HD std::int64_t joined(const std::uint32_t (&residue)[kCount]) {
  constexpr Weights kWeights = weights_of<kCount>();
  std::uint64_t sum = 0;
  std::int32_t quotient = 1 << 19;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < kCount; ++i) {
    sum += residue[i] * kWeights.weight[i];
    quotient += static_cast<std::int32_t>(residue[i]) * kWeights.fraction[i];
  }
  quotient >>= 20;
  return static_cast<std::int64_t>(sum - static_cast<std::uint64_t>(std::int64_t{quotient}) *
                                             kWeights.product);
}

// Whether kFew moduli are enough for every sum of a row and a column with such sums of squares,
// which were added up in f32, each of kMostProducts terms at most: those are off by less than
// 2^-7, and |X| is below 0.46 M.
PLANCK_HD bool few_do(float row, float column) {
  constexpr double kLargest = 0.45 * static_cast<double>(weights_of<kFew>().product);
  constexpr auto kLimit = static_cast<float>(kLargest * kLargest);
  return row * column <= kLimit;
}

}  // namespace planck::math::residues
