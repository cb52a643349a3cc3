#include "planck/data/distortion.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "planck/io/sha256.h"
#include "planck/math/philox.h"

namespace planck {
namespace {

constexpr Distortion kAll{.max_rotation = 0.3f,
                          .max_shift = 0.1f,
                          .min_scale = 0.8f,
                          .max_scale = 1.25f,
                          .max_shear = 0.2f};

struct Theta {
  float v[6];
  double operator()(int row, double x, double y) const {
    return static_cast<double>(v[3 * row]) * x + static_cast<double>(v[3 * row + 1]) * y +
           static_cast<double>(v[3 * row + 2]);
  }
};

Theta theta_of(const Distortion& d, std::uint64_t seed, std::uint64_t epoch, std::int64_t image) {
  Theta theta{};
  affine_parameters(d, seed, epoch, image, theta.v);
  return theta;
}

// The header's forward map, in f64 with the library's functions; theta must undo it.
TEST(Distortion, IsTheInverseOfWhatIsSeenToMove) {
  for (std::int64_t image = 0; image < 500; ++image) {
    const std::uint64_t seed = 7, epoch = 3;
    const Philox4 key = PhiloxStream{seed, 2}.words(epoch);
    const PhiloxStream stream{key.v[0] | std::uint64_t{key.v[1]} << 32,
                              key.v[2] | std::uint64_t{key.v[3]} << 32};
    const Philox4 w = stream.words(2 * static_cast<std::uint64_t>(image)),
                  more = stream.words(2 * static_cast<std::uint64_t>(image) + 1);
    const auto between = [](std::uint32_t word, double low, double high) {
      return low + (high - low) * (word >> 8) * 0x1p-24;
    };
    const double a = between(w.v[0], -0.3, 0.3), k = between(w.v[1], -0.2, 0.2),
                 tx = between(w.v[2], -0.2, 0.2), ty = between(w.v[3], -0.2, 0.2),
                 s = between(more.v[0], 0.8, 1.25);
    const Theta theta = theta_of(kAll, seed, epoch, image);
    for (const double x : {-1.0, 0.0, 0.5})
      for (const double y : {-0.25, 0.0, 1.0}) {
        const double sheared = x + k * y;
        const double there_x = s * (std::cos(a) * sheared - std::sin(a) * y) + tx,
                     there_y = s * (std::sin(a) * sheared + std::cos(a) * y) + ty;
        EXPECT_NEAR(theta(0, there_x, there_y), x, 1e-6);
        EXPECT_NEAR(theta(1, there_x, there_y), y, 1e-6);
      }
  }
}

// Values from a second implementation, in Python and f64; and the very bits.
TEST(Distortion, PinnedBits) {
  const double first[] = {1.22535597,  -0.227624454, -0.208633878,
                          0.204823749, 1.22915543,   -0.0132327275};
  const double later[] = {0.863352735,   0.186876591, 0.0779428233,
                          -0.0571656612, 0.871857577, -0.180244627};
  const Theta a = theta_of(kAll, 7, 0, 0), b = theta_of(kAll, 7, 3, 1436);
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(static_cast<double>(a.v[i]), first[i], 2e-7) << i;
    EXPECT_NEAR(static_cast<double>(b.v[i]), later[i], 2e-7) << i;
  }
  Sha256 sha;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch)
    for (std::int64_t image = 0; image < 1437; ++image) {
      const Theta theta = theta_of(kAll, 7, epoch, image);
      sha.update(std::as_bytes(std::span(theta.v)));
    }
  EXPECT_EQ(sha.hex(), "f4d0171e75fb306bf98100dfa217acc5e0ab3d524bc3d31644239a4b5cfded56");
}

TEST(Distortion, NoneIsExactlyTheIdentity) {
  const float identity[] = {1, 0, 0, 0, 1, 0};
  for (std::int64_t image = 0; image < 100; ++image) {
    const Theta theta = theta_of({}, 1, 2, image);
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(std::bit_cast<std::uint32_t>(theta.v[i]),
                std::bit_cast<std::uint32_t>(identity[i]));
  }
}

TEST(Distortion, EachAmountDoesWhatItSays) {
  // A shift alone: what lay at the middle is seen at t, so theta looks t back.
  const Theta shift = theta_of({.max_shift = 0.25f}, 4, 0, 0);
  EXPECT_EQ(shift.v[0], 1.0f);
  EXPECT_EQ(shift.v[1], 0.0f);
  EXPECT_LE(std::abs(shift.v[2]), 0.5f);
  EXPECT_NE(shift.v[2], shift.v[5]);
  const Theta scale = theta_of({.min_scale = 2, .max_scale = 2}, 4, 0, 0);
  EXPECT_EQ(scale.v[0], 0.5f);
  EXPECT_EQ(scale.v[4], 0.5f);
  EXPECT_EQ(scale.v[2], 0.0f);
  const Theta rotation = theta_of({.max_rotation = 1}, 4, 0, 0);
  EXPECT_NEAR(rotation.v[0] * rotation.v[4] - rotation.v[1] * rotation.v[3], 1.0f, 1e-6f);
  EXPECT_EQ(rotation.v[1], -rotation.v[3]);
  const Theta shear = theta_of({.max_shear = 0.5f}, 4, 0, 0);
  EXPECT_EQ(shear.v[0], 1.0f);
  EXPECT_EQ(shear.v[3], 0.0f);
  EXPECT_LE(std::abs(shear.v[1]), 0.5f);
}

// Uniform on its range: 20,000 images have a mean within 5 deviations, and reach the ends.
TEST(Distortion, AmountsAreUniform) {
  constexpr int kImages = 20'000;
  struct Moments {
    double low, high, sum = 0, least = 1e9, most = -1e9;
    void add(double x) { sum += x, least = std::min(least, x), most = std::max(most, x); }
  } angle{-0.3, 0.3}, size{0.8, 1.25}, right{-0.2, 0.2}, down{-0.2, 0.2};
  for (std::int64_t image = 0; image < kImages; ++image) {
    const Theta t =
        theta_of({.max_rotation = 0.3f, .min_scale = 0.8f, .max_scale = 1.25f}, 11, 5, image);
    angle.add(std::atan2(-static_cast<double>(t.v[3]), static_cast<double>(t.v[4])));
    size.add(1 / std::hypot(static_cast<double>(t.v[3]), static_cast<double>(t.v[4])));
    const Theta s = theta_of({.max_shift = 0.1f}, 11, 5, image);
    right.add(-static_cast<double>(s.v[2]));
    down.add(-static_cast<double>(s.v[5]));
  }
  for (const Moments& m : {angle, size, right, down}) {
    const double range = m.high - m.low, deviation = range / std::sqrt(12.0 * kImages);
    EXPECT_NEAR(m.sum / kImages, (m.low + m.high) / 2, 5 * deviation);
    EXPECT_NEAR(m.least, m.low, range / 1000);
    EXPECT_NEAR(m.most, m.high, range / 1000);
    EXPECT_GE(m.least, m.low - 1e-6);
    EXPECT_LE(m.most, m.high + 1e-6);
  }
}

TEST(Distortion, SeedEpochAndImageAllMatter) {
  const float base = theta_of(kAll, 1, 1, 1).v[0];
  EXPECT_NE(theta_of(kAll, 2, 1, 1).v[0], base);
  EXPECT_NE(theta_of(kAll, 1, 2, 1).v[0], base);
  EXPECT_NE(theta_of(kAll, 1, 1, 2).v[0], base);
  EXPECT_EQ(theta_of(kAll, 1, 1, 1).v[0], base);
}

TEST(Distortion, RefusesAmountsWithoutMeaning) {
  const auto says = [](const Distortion& d) {
    const auto ok = check(d);
    return ok ? "ok" : ok.error().message;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(says(kAll), "ok");
  EXPECT_EQ(says({}), "ok");
  EXPECT_EQ(says({.max_rotation = -1}), "distortion: max_rotation is -1, must be finite and >= 0");
  EXPECT_EQ(says({.max_shift = nan}), "distortion: max_shift is nan, must be finite and >= 0");
  EXPECT_EQ(says({.max_shear = -0.5f}), "distortion: max_shear is -0.5, must be finite and >= 0");
  EXPECT_EQ(says({.min_scale = 0}), "distortion: min_scale is 0, must be finite and > 0");
  EXPECT_EQ(says({.min_scale = 2}),
            "distortion: max_scale is 1, must be finite and >= min_scale, 2");
  EXPECT_EQ(says({.max_scale = std::numeric_limits<float>::infinity()}),
            "distortion: max_scale is inf, must be finite and >= min_scale, 1");
}

}  // namespace
}  // namespace planck
