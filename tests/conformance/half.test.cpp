// f16 and bf16 against arithmetic that shares nothing with them: values as sums of powers of two,
// rounding by search.
#include "planck/core/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "planck/math/philox.h"
#include "tests/conformance/half_on_device.h"

namespace planck::conformance {
namespace {

struct Format {
  int mantissa, exponent;
};
constexpr Format kF16 = {10, 5}, kBf16 = {7, 8};

// The value of a pattern, from the definition of the format.
double value_of(Format f, std::uint16_t pattern) {
  const int bias = (1 << (f.exponent - 1)) - 1, top = (1 << f.exponent) - 1;
  const int exponent = (pattern >> f.mantissa) & top;
  const int mantissa = pattern & ((1 << f.mantissa) - 1);
  const double sign = pattern & 0x8000 ? -1 : 1;
  if (exponent == top) return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - f.mantissa);
  return sign * std::ldexp(mantissa + (1 << f.mantissa), exponent - bias - f.mantissa);
}

// The finite pattern nearest to x, ties to even, or infinity: found by bisection over the ordered
// patterns.
std::uint16_t nearest(Format f, double x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::abs(x);
  const auto infinity = static_cast<std::uint16_t>(((1 << f.exponent) - 1) << f.mantissa);
  // value(low) <= magnitude; high is the first above, or infinity.
  std::uint16_t low = 0, high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value_of(f, middle) <= magnitude ? low : high) = middle;
  }
  // What infinity stands for when rounding: the next number if the exponent went on.
  const double above =
      high == infinity ? 2 * value_of(f, static_cast<std::uint16_t>(infinity - (1 << f.mantissa)))
                       : value_of(f, high);
  const double down = magnitude - value_of(f, low), up = above - magnitude;
  const std::uint16_t chosen = down < up ? low : up < down ? high : (low % 2 == 0 ? low : high);
  return static_cast<std::uint16_t>(sign | chosen);
}

template <class T>
struct Traits;
template <>
struct Traits<f16> {
  static constexpr Format format = kF16;
};
template <>
struct Traits<bf16> {
  static constexpr Format format = kBf16;
};

template <class T>
class Half : public testing::Test {};
using HalfTypes = testing::Types<f16, bf16>;
TYPED_TEST_SUITE(Half, HalfTypes);

TYPED_TEST(Half, WidensEveryPatternExactly) {
  constexpr Format f = Traits<TypeParam>::format;
  for (std::uint32_t p = 0; p < 0x10000; ++p) {
    const auto pattern = static_cast<std::uint16_t>(p);
    const double expected = value_of(f, pattern);
    const auto narrow = static_cast<float>(TypeParam::from_bits(pattern));
    const auto wide = static_cast<double>(TypeParam::from_bits(pattern));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(narrow) && std::isnan(wide)) << p;
      ASSERT_EQ(std::signbit(narrow), (p & 0x8000) != 0) << p;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(narrow),
              std::bit_cast<std::uint32_t>(static_cast<float>(expected)))
        << p;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(wide), std::bit_cast<std::uint64_t>(expected)) << p;
  }
}

TYPED_TEST(Half, EveryPatternSurvivesTheWayThereAndBack) {
  constexpr Format f = Traits<TypeParam>::format;
  for (std::uint32_t p = 0; p < 0x10000; ++p) {
    const auto pattern = static_cast<std::uint16_t>(p);
    std::uint16_t expected = pattern;
    if (std::isnan(value_of(f, pattern)))
      expected |= static_cast<std::uint16_t>(1 << (f.mantissa - 1));  // made quiet
    ASSERT_EQ(TypeParam(static_cast<float>(TypeParam::from_bits(pattern))).bits, expected) << p;
    ASSERT_EQ(TypeParam(static_cast<double>(TypeParam::from_bits(pattern))).bits, expected) << p;
  }
}

template <class T>
void expect_nearest(double x) {
  ASSERT_EQ(T(x).bits, nearest(Traits<T>::format, x)) << x;
  if (static_cast<double>(static_cast<float>(x)) == x) {
    ASSERT_EQ(T(static_cast<float>(x)).bits, nearest(Traits<T>::format, x)) << x;
  }
}

// Every midpoint between neighbours, and the numbers just beside it in f32 and in f64.
TYPED_TEST(Half, RoundsEveryMidpointToEven) {
  constexpr Format f = Traits<TypeParam>::format;
  const std::uint32_t infinity = ((1u << f.exponent) - 1) << f.mantissa;
  for (std::uint32_t p = 0; p < infinity; ++p) {
    const double low = value_of(f, static_cast<std::uint16_t>(p));
    const double high = p + 1 < infinity
                            ? value_of(f, static_cast<std::uint16_t>(p + 1))
                            : low + (low - value_of(f, static_cast<std::uint16_t>(p - 1)));
    const double middle = low + (high - low) / 2;
    for (double x : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, INFINITY)}) {
      expect_nearest<TypeParam>(x);
      expect_nearest<TypeParam>(-x);
    }
    const auto narrow = static_cast<float>(middle);
    if (static_cast<double>(narrow) != middle) continue;
    expect_nearest<TypeParam>(static_cast<double>(std::nextafter(narrow, 0.0f)));
    expect_nearest<TypeParam>(static_cast<double>(std::nextafter(narrow, INFINITY)));
  }
}

TYPED_TEST(Half, RoundsRandomPatternsOfF32AndF64) {
  const PhiloxStream random{11, 0};
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    const Philox4 r = random.words(i);
    const auto x = std::bit_cast<float>(r.v[0]);
    if (!std::isnan(x)) {
      ASSERT_EQ(TypeParam(x).bits, nearest(Traits<TypeParam>::format, static_cast<double>(x))) << x;
    }
    const double near_one = std::ldexp(1.0 + std::ldexp(r.v[1], -32) + std::ldexp(r.v[2], -64),
                                       static_cast<int>(r.v[3] % 60) - 30);
    expect_nearest<TypeParam>(near_one);
  }
}

TYPED_TEST(Half, KeepsSignAndLeadingPayloadOfNan) {
  constexpr Format f = Traits<TypeParam>::format;
  const std::uint32_t top = ((1u << f.exponent) - 1) << f.mantissa, quiet = 1u << (f.mantissa - 1);
  for (std::uint32_t payload : {1u, 0x2000u, 0x155555u, 0x2aaaaau, 0x400001u, 0x7fffffu})
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      const std::uint32_t expected = (sign >> 16) | top | quiet | (payload >> (23 - f.mantissa));
      EXPECT_EQ(TypeParam(std::bit_cast<float>(sign | 0x7f800000u | payload)).bits, expected)
          << payload;
    }
}

TEST(HalfOnDevice, GivesTheBitsOfTheHost) {
  const auto difference = conversions_that_differ_on_device();
  if (!difference) GTEST_SKIP() << difference.error().message;
  EXPECT_EQ(*difference, "");
}

}  // namespace
}  // namespace planck::conformance
