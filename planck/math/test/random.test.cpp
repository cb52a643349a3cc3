#include "planck/math/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace planck {
namespace {

TEST(Random, UniformF64CoversZeroToBelowOne) {
  EXPECT_EQ(uniform01(0u, 0u), 0.0);
  EXPECT_EQ(uniform01(~0u, ~0u), 0x1.fffffffffffffp-1);
  EXPECT_EQ(uniform01(0x80000000u, 0u), 0.5);
}

// The formula in f64, with the library's functions.
TEST(Random, NormalIsBoxMuller) {
  const PhiloxStream random{3, 5};
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Philox4 w = random.words(i);
    const double u = (static_cast<double>(w.v[0]) + 0.5) * 0x1p-32;
    const double v = static_cast<double>(w.v[1] >> 8) * 0x1p-24;
    const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::acos(-1.0) * v;
    const NormalPair<float> got = normal_pair(w.v[0], w.v[1]);
    EXPECT_NEAR(static_cast<double>(got.first), radius * std::cos(angle), 2e-6);
    EXPECT_NEAR(static_cast<double>(got.second), radius * std::sin(angle), 2e-6);
  }
  EXPECT_EQ(normal_pair(~0u, 0u).first, 0.0f);  // u = 1
  EXPECT_NEAR(static_cast<double>(normal_pair(0u, 0u).first), 6.7637, 1e-3);
}

template <class T>
void expect_moments(RandomBlock<T> (*draw)(const Philox4&), const double (&moments)[4]) {
  const PhiloxStream random{1, 2};
  double sums[4] = {};
  constexpr int kBlocks = 1 << 18;
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    const RandomBlock<T> b = draw(random.words(i));
    for (T x : b.v)
      for (int k = 0; k < 4; ++k) sums[k] += std::pow(static_cast<double>(x), k + 1);
  }
  const double count = static_cast<double>(kBlocks) * RandomBlock<T>::kCount;
  for (int k = 0; k < 4; ++k) EXPECT_NEAR(sums[k] / count, moments[k], 0.05) << k + 1;
}

TEST(Random, MomentsOfNormal) {
  expect_moments<float>(RandomBlock<float>::normal, {0, 1, 0, 3});
  expect_moments<double>(RandomBlock<double>::normal, {0, 1, 0, 3});
}
TEST(Random, MomentsOfUniform) {
  expect_moments<float>(RandomBlock<float>::uniform, {0.5, 1 / 3.0, 0.25, 0.2});
  expect_moments<double>(RandomBlock<double>::uniform, {0.5, 1 / 3.0, 0.25, 0.2});
}

}  // namespace
}  // namespace planck
