// The formula of tensor cores against one in f64, where every term, cut and sum is exact; and
// values that were observed on the device.
#include "planck/math/products/tensor_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "planck/core/half.h"

namespace planck::math::tensor_core {
namespace {

using Random = std::mt19937_64;

// Numbers of a format, by the conversions of half.h, and the exponent of its smallest normal.
template <class Format>
double number(typename Format::Bits bits) {
  if constexpr (std::is_same_v<Format, Bf16>) return static_cast<double>(bf16::from_bits(bits));
  if constexpr (std::is_same_v<Format, F16>) return static_cast<double>(f16::from_bits(bits));
  if constexpr (std::is_same_v<Format, Tf32>)
    return static_cast<double>(std::bit_cast<float>(bits & 0xffffe000u));
}
template <class Format>
int exponent(double x) {
  return std::max(std::ilogb(x), std::is_same_v<Format, F16> ? -14 : -126);
}

float toward_zero(double x) {
  if (std::abs(x) >= 0x1p128)
    return std::copysign(std::numeric_limits<float>::infinity(), x > 0 ? 1.0f : -1.0f);
  const double most = std::numeric_limits<float>::max();
  const auto nearest = static_cast<float>(std::clamp(x, -most, most));
  return std::abs(static_cast<double>(nearest)) > std::abs(x) ? std::nextafterf(nearest, 0.0f)
                                                              : nearest;
}

template <class Format>
float block_in_f64(float c, const typename Format::Bits* a, const typename Format::Bits* b) {
  int largest = c != 0 && std::isfinite(c) ? std::max(std::ilogb(c), -126) : -133;
  double plain = static_cast<double>(c);  // NaN and infinities add up as IEEE 754 has it
  for (int i = 0; i < Format::kBlock; ++i) {
    const double x = number<Format>(a[i]), y = number<Format>(b[i]);
    plain += std::isfinite(x) && std::isfinite(y) ? 0 : x * y;
    if (x * y != 0 && std::isfinite(x * y))
      largest = std::max(largest, exponent<Format>(x) + exponent<Format>(y));
  }
  if (!std::isfinite(plain)) return static_cast<float>(plain);
  const auto cut = [&](double term) { return std::trunc(std::ldexp(term, 25 - largest)); };
  double sum = cut(static_cast<double>(c));
  for (int i = 0; i < Format::kBlock; ++i) sum += cut(number<Format>(a[i]) * number<Format>(b[i]));
  return toward_zero(std::ldexp(sum, largest - 25)) + 0.0f;  // a zero is +0
}

// Bits of several kinds: around 1, any, subnormal and tiny, zeros and ones, NaN and infinities.
template <class Format>
typename Format::Bits draw(Random& random, int kind) {
  constexpr int kM = Format::kMantissa + Format::kDropped, kTop = (1 << Format::kExponent) - 1;
  const auto r = random();
  const auto low = [&](int exponent) {
    const auto mantissa = r & ((std::uint64_t{1} << kM) - 1);
    return static_cast<typename Format::Bits>((r >> 63) << (kM + Format::kExponent) |
                                              static_cast<std::uint64_t>(exponent) << kM |
                                              mantissa);
  };
  const auto pick = static_cast<int>((r >> 32) & 0xffff);
  switch (kind) {
    case 0:
      return low(kTop / 2 - 3 + pick % 6);
    case 1:
      return low(pick % kTop);
    case 2:
      return low(pick % 3);
    case 3:
      return pick % 3 == 0 ? static_cast<typename Format::Bits>(low(kTop / 2) >> kM << kM)
                           : static_cast<typename Format::Bits>(low(0) >> kM << kM);
    default:
      return pick % 40 != 0 ? low(kTop / 2)
             : pick % 80    ? low(kTop)
                            : static_cast<typename Format::Bits>(low(kTop) >> kM << kM);
  }
}

void expect_same(float want, float got, const char* what) {
  if (std::isnan(want))
    EXPECT_TRUE(std::isnan(got)) << what << " " << got;
  else
    EXPECT_EQ(bits_of(want), bits_of(got)) << what << " " << want << " " << got;
}

template <class Format>
class TensorCoreFormula : public testing::Test {};
using Formats = testing::Types<Bf16, F16, Tf32>;
TYPED_TEST_SUITE(TensorCoreFormula, Formats);

TYPED_TEST(TensorCoreFormula, IsTheOneInF64) {
  Random random(7);
  int infinite = 0, nan = 0, zero = 0, subnormal = 0;
  for (int t = 0; t < 40'000; ++t) {
    const int kind = t % 5;
    typename TypeParam::Bits a[TypeParam::kBlock], b[TypeParam::kBlock];
    for (auto& x : a) x = draw<TypeParam>(random, kind);
    for (auto& x : b) x = draw<TypeParam>(random, kind == 2 && t % 2 ? 0 : kind);
    if (t % 3 == 0)  // cancellations: what is left is far below the terms
      for (int i = 1; i < TypeParam::kBlock; i += 2) {
        a[i] = static_cast<typename TypeParam::Bits>(a[i - 1] ^ typename TypeParam::Bits{1}
                                                                    << (sizeof(a[i]) * 8 - 1));
        b[i] = b[i - 1];
      }
    float c = draw<Tf32>(random, kind) == 0 ? 0.0f : from_bits(draw<Tf32>(random, kind));
    if (kind == 2) c = t % 4 ? from_bits(static_cast<std::uint32_t>(random()) & 0x80ffffffu) : 0.0f;
    const float got = add_block<TypeParam>(c, a, b);
    expect_same(block_in_f64<TypeParam>(c, a, b), got, "block");
    infinite += std::isinf(got);
    nan += std::isnan(got);
    zero += got == 0;
    subnormal += std::fpclassify(got) == FP_SUBNORMAL;
  }
  EXPECT_GT(infinite, 100);
  EXPECT_GT(nan, 100);
  EXPECT_GT(zero, 100);
  if (!std::is_same_v<TypeParam, F16>) {  // which is never that small
    EXPECT_GT(subnormal, 100);
  }
}

// A product is its blocks, k ascending; what is missing of the last are zeros.
TYPED_TEST(TensorCoreFormula, WalksKInBlocks) {
  Random random(11);
  constexpr int kB = TypeParam::kBlock;
  for (int k : {0, 1, kB - 1, kB, kB + 1, 5 * kB + 3}) {
    const int whole = (k + kB - 1) / kB * kB;
    std::vector<typename TypeParam::Bits> a(static_cast<std::size_t>(2 * whole + 1)), b(a.size());
    for (int i = 0; i < k; ++i) {
      a[static_cast<std::size_t>(2 * i)] = draw<TypeParam>(random, 0);
      b[static_cast<std::size_t>(whole - i)] = draw<TypeParam>(random, 0);
    }
    float want = 0;
    for (int at = 0; at < whole; at += kB) {
      typename TypeParam::Bits x[kB], y[kB];
      for (int i = 0; i < kB; ++i) {
        x[i] = a[static_cast<std::size_t>(2 * (at + i))];
        y[i] = b[static_cast<std::size_t>(whole - at - i)];
      }
      want = block_in_f64<TypeParam>(want, x, y);
    }
    expect_same(want, product<TypeParam>(a.data(), 2, b.data() + whole, -1, k), "product");
  }
}

float block_of(std::vector<float> a, std::vector<float> b, float c) {
  std::uint16_t x[16] = {}, y[16] = {};
  for (std::size_t i = 0; i < a.size(); ++i) x[i] = bf16(a[i]).bits, y[i] = bf16(b[i]).bits;
  return add_block<Bf16>(c, x, y);
}

// What an H200 computed where all terms are far below 1: none is cut below 2^-158.
TEST(TensorCore, SubnormalsOfHardware) {
  const std::uint16_t a[16] = {0x0899, 0x07b8, 0x8be8}, b[16] = {0x26f3, 0x2658, 0x2ed1};
  EXPECT_EQ(bits_of(add_block<Bf16>(0, a, b)), 0x800017adu);
  const std::uint16_t c[16] = {0x9f30, 0x0503, 0x8552, 0x0a96, 0x00b8, 0xba04, 0x09ce},
                      d[16] = {0x0f4f, 0xa23e, 0x9f84, 0x8e51, 0x9c53, 0x801c, 0x95ec};
  EXPECT_EQ(bits_of(add_block<Bf16>(0, c, d)), 0x0000039cu);
  const std::uint32_t e[8] = {0x9429db13, 0x1dfa68e4, 0xb4790c2b, 0x808cb311,
                              0x924c8e07, 0x24af3834, 0x90aec4d5, 0x9e61e419},
                      f[8] = {0x970fb99c, 0x9999cde5, 0x84c09b0b, 0xa080275a,
                              0x8fc36f17, 0x969ec36c, 0x0401cd9c, 0x9681d015};
  EXPECT_EQ(bits_of(add_block<Tf32>(0, e, f)), 0x800033a9u);
}

TEST(TensorCore, WorkedExamples) {
  const float inf = std::numeric_limits<float>::infinity(),
              most = std::numeric_limits<float>::max();
  EXPECT_EQ(block_of({1, 2}, {3, 4}, 0.5f), 11.5f);
  // 25 bits below the largest exponent: 2^-25 counts, 2^-26 does not, twice either.
  EXPECT_EQ(block_of({1, 0x1p-25f, -1}, {1, 1, 1}, 0), 0x1p-25f);
  EXPECT_EQ(block_of({1, 0x1p-26f, 0x1p-26f, -1}, {1, 1, 1, 1}, 0), 0.0f);
  // Not normalized: 1.5 · 1.5 = 2.25 has exponent 0, so 2^-25 beside it counts.
  EXPECT_EQ(block_of({1.5f, 0x1p-25f, -2.25f}, {1.5f, 1, 1}, 0), 0.0f);  // -2.25 has exponent 1
  EXPECT_EQ(block_of({1.5f, 0x1p-25f, -1.5f}, {1.5f, 1, 1.5f}, 0), 0x1p-25f);
  // Toward zero: just below 1, and just above -1.
  EXPECT_EQ(block_of({1, -0x1p-25f}, {1, 1}, 0), 1 - 0x1p-24f);
  EXPECT_EQ(block_of({-1, 0x1p-25f}, {1, 1}, 0), -1 + 0x1p-24f);
  EXPECT_EQ(block_of({1, 0x1p-24f}, {1, 1}, 0), 1.0f);
  // Sixteen largest products pass 2^31 units.
  EXPECT_EQ(block_of(std::vector<float>(16, 1.9921875f), std::vector<float>(16, 1.9921875f), 0),
            16 * 1.9921875f * 1.9921875f);
  // The sign of zero.
  EXPECT_EQ(bits_of(block_of({-0.0f, 0.0f}, {1, -1}, -0.0f)), 0u);
  EXPECT_EQ(bits_of(block_of({1, -1}, {1, 1}, 0)), 0u);
  // The end of the range: cut, not rounded, so that only 2^128 is infinite.
  EXPECT_EQ(block_of({0x1p103f}, {1}, most), most);
  EXPECT_EQ(block_of({0x1p104f}, {1}, most), inf);
  EXPECT_EQ(block_of({0x1p127f, 0x1p127f}, {2, -2}, 1), 0.0f);  // no overflow on the way
  EXPECT_EQ(block_of({0x1p127f}, {-0x1p127f}, most), -inf);
  // Not finite.
  EXPECT_TRUE(std::isnan(block_of({inf}, {0}, 1)));
  EXPECT_TRUE(std::isnan(block_of({inf, inf}, {1, -1}, 1)));
  EXPECT_TRUE(std::isnan(block_of({1}, {1}, std::nanf(""))));
  EXPECT_TRUE(std::isnan(block_of({-inf}, {1}, inf)));
  EXPECT_EQ(block_of({-inf}, {1}, most), -inf);
  EXPECT_EQ(bits_of(product<Bf16>(nullptr, 0, nullptr, 0, 0)), 0u);
}

TEST(TensorCore, Tf32DropsThirteenBits) {
  const auto of = [](float x, float y) {
    const std::uint32_t a = bits_of(x), b = bits_of(y);
    return product<Tf32>(&a, 1, &b, 1, 1);
  };
  EXPECT_EQ(of(1 + 0x1p-10f, 1), 1 + 0x1p-10f);
  EXPECT_EQ(of(1 + 0x1p-10f - 0x1p-23f, 1), 1.0f);
  EXPECT_EQ(of(0x1p-136f, 1), 0x1p-136f);
  EXPECT_EQ(of(0x1p-137f, 1), 0.0f);
  EXPECT_EQ(of(from_bits(0x7f800001u), 1), std::numeric_limits<float>::infinity());
  EXPECT_EQ(bits_of(of(from_bits(0xffc02000u), 1)), 0x7fc00000u);
}

}  // namespace
}  // namespace planck::math::tensor_core
