// Exact products against sums in 128 bits, rounded by the compiler's conversion from binary128.
#include "planck/math/products/exact_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "planck/core/product_math.h"

namespace planck::math::exact {
namespace {

__extension__ using Integer = __int128;
__extension__ using Real = __float128;
using Random = std::mt19937_64;

float rounded_once(Integer sum, int n) {
  Real v = static_cast<Real>(sum);
  const Real two = n < 0 ? static_cast<Real>(0.5) : static_cast<Real>(2);
  for (int i = 0; i < std::abs(n); ++i) v *= two;
  return static_cast<float>(v);
}

int exponent_of_row(const std::vector<float>& row) {
  float largest = 0;
  for (float x : row) largest = std::max(largest, std::abs(x));
  int e = 0;
  if (largest != 0) std::frexp(largest, &e);
  return e;
}

int exponent_by_bits(const std::vector<float>& row) {
  std::uint32_t largest = 0;
  for (float x : row) largest = std::max(largest, magnitude_of(x));
  return exponent_of(largest);
}

float in_128_bits(const std::vector<float>& a, const std::vector<float>& b) {
  const int ea = exponent_of_row(a), eb = exponent_of_row(b);
  Integer sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k)
    sum += static_cast<Integer>(std::nearbyint(std::ldexp(static_cast<double>(a[k]), 22 - ea))) *
           static_cast<Integer>(std::nearbyint(std::ldexp(static_cast<double>(b[k]), 22 - eb)));
  return rounded_once(sum, ea + eb - 44);
}

float product_of(const std::vector<float>& a, const std::vector<float>& b) {
  return product(a.data(), 1, exponent_by_bits(a), b.data(), 1, exponent_by_bits(b),
                 static_cast<std::int64_t>(a.size()));
}

// Around 1, spread over all exponents, subnormal, huge.
float draw(Random& random, int kind) {
  const auto r = random();
  const auto mantissa = static_cast<std::uint32_t>(r) & 0x807fffffu;
  const auto pick = static_cast<std::uint32_t>(r >> 40);
  const std::uint32_t field = kind == 0   ? 120 + pick % 12
                              : kind == 1 ? pick % 255
                              : kind == 2 ? 0
                                          : 250 + pick % 5;
  return from_bits(mantissa | field << 23);
}

TEST(ExactProduct, IsTheSumIn128Bits) {
  Random random(3);
  int zero = 0, infinite = 0, subnormal = 0;
  for (int t = 0; t < 20'000; ++t) {
    const std::size_t k = 1 + random() % 40;
    std::vector<float> a(k), b(k);
    for (float& x : a) x = draw(random, t % 4);
    for (float& x : b) x = draw(random, t / 4 % 4);
    if (t % 5 == 0)
      for (std::size_t i = 1; i < k; i += 2) a[i] = -a[i - 1], b[i] = b[i - 1];
    const float want = in_128_bits(a, b), got = product_of(a, b);
    ASSERT_EQ(bits_of(want), bits_of(got)) << t << " " << want << " " << got;
    ASSERT_EQ(exponent_of_row(a), exponent_by_bits(a));
    zero += got == 0;
    infinite += std::isinf(got);
    subnormal += std::fpclassify(got) == FP_SUBNORMAL;
  }
  EXPECT_GT(zero, 100);
  EXPECT_GT(infinite, 100);
  EXPECT_GT(subnormal, 100);
}

TEST(ExactProduct, RoundsIntegersOfAnyLengthOnce) {
  Random random(5);
  for (int t = 0; t < 200'000; ++t) {
    const int length = static_cast<int>(random() % 110) + 1;
    Integer v = (static_cast<Integer>(random()) << 64 | static_cast<Integer>(random())) &
                ((static_cast<Integer>(1) << length) - 1);
    if (t % 3 == 0 && length > 26)  // half way between two results, or next to it
      v = (v >> (length - 24) << (length - 24)) + (static_cast<Integer>(1) << (length - 25)) +
          static_cast<Integer>(random() % 3) - 1;
    if (t % 2) v = -v;
    const int n = static_cast<int>(random() % 330) - 230;
    const Wide wide{static_cast<std::int64_t>(v >> 64), static_cast<std::uint64_t>(v)};
    const float want = v == 0 ? 0.0f : rounded_once(v, n);
    ASSERT_EQ(bits_of(want), bits_of(round_exact(wide, n))) << length << " " << n;
    if (length < 63) {
      ASSERT_EQ(bits_of(want), bits_of(round_exact(static_cast<std::int64_t>(v), n))) << n;
    }
  }
}

TEST(ExactProduct, WideSumsCarry) {
  Wide sum;
  Integer want = 0;
  Random random(6);
  for (int t = 0; t < 5000; ++t) {
    const auto v = static_cast<std::int64_t>(random());
    sum.add(v);
    want += v;
    ASSERT_EQ(static_cast<std::int64_t>(want >> 64), sum.high);
    ASSERT_EQ(static_cast<std::uint64_t>(want), sum.low);
  }
}

TEST(ExactProduct, DigitsAreTheInteger) {
  for (std::int32_t q = -(1 << 22); q <= 1 << 22; q += q % 1000 == 0 ? 1 : 7) {
    const Digits d = digits_of(q);
    ASSERT_EQ(d.high * 65536 + d.middle * 256 + d.low, q);
    ASSERT_LE(std::abs(d.high), 65);
  }
  const Digits x = digits_of(-4194304), y = digits_of(1234567);
  const int a[] = {x.high, x.middle, x.low}, b[] = {y.high, y.middle, y.low};
  std::int64_t sums[5] = {};
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) sums[i + j] += a[i] * b[j];
  EXPECT_EQ(joined(sums), -4194304ll * 1234567);
}

TEST(ExactProduct, TiesGoToEven) {
  // A row whose largest is 2^22 - 1 in units of 2^0: halves are rounded.
  const int e = exponent_of(magnitude_of(4194303.0f));
  EXPECT_EQ(e, 22);
  EXPECT_EQ(rounded(0.5f, e), 0);
  EXPECT_EQ(rounded(1.5f, e), 2);
  EXPECT_EQ(rounded(-2.5f, e), -2);
  EXPECT_EQ(rounded(from_bits(bits_of(0.5f) + 1), e), 1);
  EXPECT_EQ(rounded(0x1p-126f, e), 0);
  EXPECT_EQ(rounded(4194303.75f, e), 4194304);  // up to 2^22
  EXPECT_EQ(rounded(-0.0f, 0), 0);
  const int tiny = exponent_of(1);  // 2^-149
  EXPECT_EQ(tiny, -148);
  EXPECT_EQ(rounded(0x1p-149f, tiny), 1 << 21);
}

TEST(ExactProduct, IsTotal) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const auto is_nan = [](float x) { return bits_of(x) == 0x7fc00000u; };
  EXPECT_EQ(bits_of(product_of({0, -0.0f}, {1, 2})), 0u);
  EXPECT_EQ(bits_of(product_of({1, -1}, {1, 1})), 0u);
  EXPECT_EQ(bits_of(product_of({}, {})), 0u);
  EXPECT_EQ(product_of({inf, 1}, {2, 3}), inf);
  EXPECT_EQ(product_of({1, 1}, {2, -inf}), -inf);
  EXPECT_TRUE(is_nan(product_of({inf, 1}, {0, 3})));
  EXPECT_TRUE(is_nan(product_of({inf, inf}, {1, -1})));
  EXPECT_TRUE(is_nan(product_of({1, from_bits(0xffc12345u)}, {1, 1})));
  EXPECT_TRUE(is_nan(product_of({inf, inf}, {1, nan})));
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(product_of({most, most}, {1, 1}), inf);
  EXPECT_EQ(product_of({most, -most}, {most, most}), 0.0f);
  EXPECT_EQ(product_of({0x1p-149f}, {0.5f}), 0.0f);  // a tie
  EXPECT_EQ(product_of({0x1p-149f, 0x1p-149f}, {0.5f, 0.25f}), 0x1p-149f);
  EXPECT_EQ(product_of({3}, {7}), 21.0f);
}

TEST(ProductMath, Names) {
  for (ProductMath m : kAllProductMath) EXPECT_EQ(parse_product_math(name(m)), m);
  EXPECT_EQ(parse_product_math("fast"), std::nullopt);
  EXPECT_EQ(name(ProductMath::tensor_core), "tensor_core");
}

}  // namespace
}  // namespace planck::math::exact
