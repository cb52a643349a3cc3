// Holds the terms of sums to the error that exp_terms.h states, against the C library's f64 exp.
#include "planck/math/exp_terms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "planck/math/philox.h"

namespace planck::math {
namespace {

TEST(ExpTerms, QuotientsAreWithinTheStatedError) {
  constexpr double kUnit = 0x1p-23, kPerDistance = 0x1p-28 * 0.70710678118654752;
  const PhiloxStream random{7, 11};
  const auto argument = [](std::uint32_t word) {  // from -86 to 64
    return static_cast<float>(static_cast<double>(word) * 0x1p-32 * 150 - 86);
  };
  for (std::uint64_t i = 0; i < 500'000; ++i) {
    const auto words = random.words(i);
    for (int k = 0; k < 4; k += 2) {
      const float x = argument(words.v[k]);
      // Far apart, near each other, and against the largest size there is.
      const float y = i % 3 == 0   ? argument(words.v[k + 1])
                      : i % 3 == 1 ? x + static_cast<float>(words.v[k + 1]) * 0x1p-32f
                                   : 63.99f;
      const double distance = static_cast<double>(x) - y;
      const double quotient = static_cast<double>(exp_term(x)) / exp_term(y);
      const double error = std::abs(quotient / std::exp(distance) - 1);
      ASSERT_LE(error, 2 * kUnit + kPerDistance * std::abs(distance)) << x << " and " << y;
    }
  }
}

TEST(ExpTerms, EndsAndUnusualNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_term(0.0f), 1.0f);
  EXPECT_EQ(exp_term(-kInfinity), 0.0f);
  EXPECT_EQ(exp_term(-104.0f), 0.0f);
  EXPECT_GT(exp_term(-103.0f), 0.0f);
  EXPECT_TRUE(std::isfinite(exp_term(70.0f) * 0x1p24f));
  EXPECT_NE(exp_term(std::nanf("")), exp_term(std::nanf("")));
  EXPECT_EQ(center_of_terms(63.99f), 0.0f);
  EXPECT_EQ(center_of_terms(-63.99f), 0.0f);
  EXPECT_EQ(center_of_terms(64.0f), 64.0f);
  EXPECT_EQ(center_of_terms(-64.0f), -64.0f);
  EXPECT_EQ(center_of_terms(-kInfinity), -kInfinity);
}

}  // namespace
}  // namespace planck::math
