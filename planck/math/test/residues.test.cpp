// Residues against division, and integers joined from them against themselves.
#include "planck/math/products/residues.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "planck/math/products/exact_product.h"

namespace planck::math::residues {
namespace {

__extension__ using Integer = __int128;
using Random = std::mt19937_64;

// x modulo m, from 0 on.
std::int64_t modulo(Integer x, std::int64_t m) {
  const auto left = static_cast<std::int64_t>(x % m);
  return left < 0 ? left + m : left;
}

std::int8_t residue_of(std::int32_t q, int i) {
  const float shifted = static_cast<float>(q) + kShifting;
  return static_cast<std::int8_t>(residue(static_cast<float>(q), bits_of(shifted), i));
}

TEST(Residues, ModuliAreCoprime) {
  for (int i = 0; i < kMost; ++i)
    for (int j = 0; j < i; ++j) EXPECT_EQ(std::gcd(modulus(i), modulus(j)), 1u) << i << " " << j;
}

TEST(Residues, OfEveryInteger) {
  constexpr std::int32_t kLargest = 1 << exact::kBits;
  for (int i = 0; i < kMost; ++i) {
    const auto m = static_cast<std::int32_t>(modulus(i));
    std::size_t wrong = 0;
    for (std::int32_t q = -kLargest; q <= kLargest; ++q) {
      const std::int32_t r = residue_of(q, i);
      wrong += (q - r) % m != 0 || std::abs(r) > (m == 256 ? 128 : 127) ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0u) << m;
  }
}

// From 0 to m, for every sum near a multiple that is near the ends, and for any.
TEST(Residues, OfSums) {
  Random random(1);
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  static_assert(kMostProducts * 128 * 128 <= kLargest);
  for (int i = 0; i < kMost; ++i) {
    const auto m = static_cast<std::int64_t>(modulus(i));
    const auto hold = [&](std::int64_t sum) {
      if (std::abs(sum) > kLargest) return;
      const std::uint32_t left =
          reduced(static_cast<std::int32_t>(sum), static_cast<std::int32_t>(m), reciprocal(i));
      ASSERT_LE(left, m == 256 ? 255u : modulus(i)) << sum << " modulo " << m;
      ASSERT_EQ(modulo(sum - left, m), 0) << sum << " modulo " << m;
    };
    for (int t = 0; t < 300'000; ++t) {
      hold(static_cast<std::int64_t>(random() >> 33) - kLargest);
      const std::int64_t near = kLargest / m * m - t / 3 * m + t % 3 - 1;
      hold(near), hold(-near), hold(t), hold(-t);
    }
  }
}

// Each residue from 0 on, or m itself for 0.
template <int kCount>
void hold_joined(Integer x, Random& random) {
  std::uint32_t left[kCount];
  for (int i = 0; i < kCount; ++i) {
    left[i] = static_cast<std::uint32_t>(modulo(x, modulus(i)));
    if (left[i] == 0 && modulus(i) < 256 && random() % 2 != 0) left[i] = modulus(i);
  }
  ASSERT_EQ(joined<kCount>(left), static_cast<std::int64_t>(x));
}
template <int kCount>
void hold_all_joined() {
  Random random(2);
  Integer product = 1;
  for (int i = 0; i < kCount; ++i) product *= modulus(i);
  ASSERT_EQ(weights_of<kCount>().product, static_cast<std::uint64_t>(product));
  const auto largest = static_cast<std::int64_t>(product / 2 - product / 512);
  for (int t = 0; t < 200'000; ++t) {
    const auto any = static_cast<std::int64_t>(random()) >> (random() % 63);
    for (const Integer x : {Integer{any} % (largest + 1), Integer{largest} - t, Integer{t}})
      hold_joined<kCount>(x, random), hold_joined<kCount>(-x, random);
    // Multiples of all moduli but one.
    const Integer others = product / modulus(t % kCount);
    const Integer x = others * (Integer{any} % (largest / others + 1)) + t / kCount % 3 - 1;
    if (x <= largest && x >= -largest) hold_joined<kCount>(x, random);
  }
}
TEST(Residues, JoinedAreTheInteger) {
  hold_all_joined<kFew>();
  hold_all_joined<kMost>();
}

// The longest sum of the largest integers is joined from all moduli; what few are enough for, from
// these.
TEST(Residues, BoundsAreKept) {
  const Integer most = Integer{kMostProducts} << (2 * exact::kBits);
  EXPECT_LT(most, weights_of<kMost>().product / 2 - weights_of<kMost>().product / 512);
  Random random(3);
  std::size_t few = 0;
  constexpr int kTrials = 1000;
  for (int t = 0; t < kTrials; ++t) {
    // Rows that are their columns: no sum is larger. Squares are added up one by one, in f32.
    const auto k = static_cast<std::int64_t>(random() % 4096 + 1);
    const auto largest = static_cast<std::int32_t>((1 << exact::kBits) >> (random() % 3));
    float squares = 0;
    Integer sum = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int32_t q = largest - static_cast<std::int32_t>(random() % 8);
      squares = std::fma(static_cast<float>(q), static_cast<float>(q), squares);
      sum += Integer{q} * q;
    }
    if (few_do(squares, squares)) {
      ++few;
      EXPECT_LT(sum, weights_of<kFew>().product / 2 - weights_of<kFew>().product / 512);
    } else {
      EXPECT_GT(sum, weights_of<kFew>().product * 2 / 5);
    }
  }
  EXPECT_GT(few, kTrials / 4);
  EXPECT_LT(few, kTrials);
  EXPECT_TRUE(few_do(0, 0));
  const float worst = std::ldexp(static_cast<float>(kMostProducts), 2 * exact::kBits);
  EXPECT_FALSE(few_do(worst, worst));
}

// A whole product, as kernels take it.
TEST(Residues, ProductsAreExact) {
  Random random(4);
  for (int t = 0; t < 2000; ++t) {
    const auto k = static_cast<std::size_t>(random() % 500 + 1);
    const int shift = static_cast<int>(random() % 22);
    Integer expected = 0;
    std::vector<std::int32_t> a(k), b(k);
    for (std::size_t i = 0; i < k; ++i) {
      const auto draw = [&] {
        return static_cast<std::int32_t>(random() % ((1u << 23) + 1) - (1u << 22)) >> shift;
      };
      a[i] = draw(), b[i] = draw();
      expected += Integer{a[i]} * b[i];
    }
    std::uint32_t left[kMost];
    for (int m = 0; m < kMost; ++m) {
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < k; ++i) sum += residue_of(a[i], m) * residue_of(b[i], m);
      left[m] = reduced(sum, static_cast<std::int32_t>(modulus(m)), reciprocal(m)) & 0xffu;
    }
    ASSERT_EQ(joined<kMost>(left), static_cast<std::int64_t>(expected));
    std::uint32_t few[kFew];
    for (int m = 0; m < kFew; ++m) few[m] = left[m];
    ASSERT_EQ(joined<kFew>(few), static_cast<std::int64_t>(expected));  // of 500 at most
  }
}

}  // namespace
}  // namespace planck::math::residues
