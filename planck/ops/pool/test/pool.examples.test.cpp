// Worked examples of the pool family. Numbers of whole images are PyTorch's (1.13, float64).
#include "planck/ops/pool/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "planck/verify/run_plan.test.h"

namespace planck {
namespace {

const Shape kImage = {1, 1, 5, 6};
constexpr double kX[30] = {3, 10, 6, 2, 9, 5, 1, 8, 4,  0, 7, 3, 10, 6, 2,
                           9, 5,  1, 8, 4, 0, 7, 3, 10, 6, 2, 9, 5,  1, 8};
constexpr double kDy[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

using Doubles = std::vector<double>;

struct Pooled {
  Doubles y, dx;
  std::vector<std::int32_t> indices;
};

Pooled max_pool(const Shape& out, const PoolOptions& options) {
  Pooled r{Doubles(9), Doubles(30), std::vector<std::int32_t>(9)};
  run<MaxPool2dPlan<double>>(
      {.x = kImage, .options = options},
      {.x = {kX, kImage}, .y = {r.y.data(), out}, .indices = {r.indices.data(), out}});
  run<MaxPool2dBackwardPlan<double>>(
      {.x = kImage, .options = options},
      {.dy = {kDy, out}, .indices = {r.indices.data(), out}, .dx = {r.dx.data(), kImage}});
  return r;
}

void expect_near(const Doubles& actual, const Doubles& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6) << i;
}

TEST(PoolExamples, MaxOfOverlappingWindows) {
  const Pooled r = max_pool({1, 1, 3, 3}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  EXPECT_EQ(r.y, (Doubles{10, 10, 9, 10, 9, 10, 8, 9, 10}));
  EXPECT_EQ(r.indices, (std::vector<std::int32_t>{1, 1, 4, 12, 15, 23, 18, 26, 23}));
  EXPECT_EQ(r.dx, (Doubles{0, 3, 0, 0, 3, 0, 0, 0, 0,  0, 0, 0, 4, 0, 0,
                           5, 0, 0, 7, 0, 0, 0, 0, 15, 0, 0, 8, 0, 0, 0}));
}

TEST(PoolExamples, MaxOfDilatedWindowsThatHangOver) {
  const Pooled r = max_pool({1, 1, 3, 3}, {.kernel = {3, 2},
                                           .stride = {2, 3},
                                           .padding = {1, 1},
                                           .dilation = {1, 2},
                                           .ceil_mode = true});
  EXPECT_EQ(r.y, (Doubles{10, 9, 5, 8, 7, 10, 4, 9, 10}));
  EXPECT_EQ(r.indices, (std::vector<std::int32_t>{1, 4, 5, 7, 10, 23, 19, 26, 23}));
  EXPECT_EQ(r.dx, (Doubles{0, 1, 0, 0, 2, 3, 0, 4, 0,  0, 5, 0, 0, 0, 0,
                           0, 0, 0, 0, 7, 0, 0, 0, 15, 0, 0, 8, 0, 0, 0}));
}

TEST(PoolExamples, AveragesWithAndWithoutPadding) {
  for (const bool include : {true, false}) {
    const PoolDescriptor d{
        .x = kImage,
        .options = {
            .kernel = {2, 4}, .padding = {1, 1}, .ceil_mode = true, .count_include_pad = include}};
    const Shape out = {1, 1, 3, 2};
    Doubles y(6), dx(30);
    run<AvgPool2dPlan<double>>(d, {.x = {kX, kImage}, .y = {y.data(), out}});
    run<AvgPool2dBackwardPlan<double>>(d, {.dy = {kDy, out}, .dx = {dx.data(), kImage}});
    if (include) {
      EXPECT_EQ(y, (Doubles{2.375, 2.0, 3.875, 3.125, 3.625, 4.25}));
      EXPECT_EQ(dx, (Doubles{0.125, 0.125, 0.125, 0.25,  0.25,  0.25,  0.375, 0.375, 0.375, 0.5,
                             0.5,   0.5,   0.375, 0.375, 0.375, 0.5,   0.5,   0.5,   0.625, 0.625,
                             0.625, 0.75,  0.75,  0.75,  0.625, 0.625, 0.625, 0.75,  0.75,  0.75}));
    } else {
      expect_near(y, {19.0 / 3, 16.0 / 3, 31.0 / 6, 25.0 / 6, 29.0 / 6, 17.0 / 3});
      Doubles expected;
      for (const auto& [left, right] : {std::pair{1.0 / 3, 2.0 / 3},
                                        {0.5, 2.0 / 3},
                                        {0.5, 2.0 / 3},
                                        {5.0 / 6, 1.0},
                                        {5.0 / 6, 1.0}})
        expected.insert(expected.end(), {left, left, left, right, right, right});
      expect_near(dx, expected);
    }
  }
}

TEST(PoolExamples, AdaptiveWindowsShareAPixel) {
  const AdaptivePoolDescriptor d{.x = kImage, .size = {2, 4}};
  const Shape out = {1, 1, 2, 4};
  Doubles y(8), dx(30);
  run<AdaptiveAvgPool2dPlan<double>>(d, {.x = {kX, kImage}, .y = {y.data(), out}});
  expect_near(y, {19.0 / 3, 6, 16.0 / 3, 5, 6, 23.0 / 6, 5, 14.0 / 3});
  run<AdaptiveAvgPool2dBackwardPlan<double>>(d, {.dy = {kDy, out}, .dx = {dx.data(), kImage}});
  expect_near(dx, {0.16666667, 0.5,        0.33333333, 0.5,        1.16666667, 0.66666667,
                   0.16666667, 0.5,        0.33333333, 0.5,        1.16666667, 0.66666667,
                   1.0,        2.33333333, 1.33333333, 1.66666667, 3.66666667, 2.0,
                   0.83333333, 1.83333333, 1.0,        1.16666667, 2.5,        1.33333333,
                   0.83333333, 1.83333333, 1.0,        1.16666667, 2.5,        1.33333333});
}

TEST(PoolExamples, TakesTheFirstLargestAndTheFirstNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const float x[] = {-0.0f, 0.0f,  3, 3, 1,   -nan, -inf, -inf,  //
                     0.0f,  -0.0f, 3, 2, nan, inf,  -inf, -inf};
  float y[4];
  std::int32_t indices[4];
  for (const char* kernel : {"cpu:pairs", "cpu:rows"}) {
    const Stream stream = Stream::cpu(1);
    const auto plan = MaxPool2dPlan<float>::select(
        stream, {.x = {2, 8}, .options = {.kernel = {2, 2}}}, {.kernel = kernel});
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_TRUE(
        plan->run(stream, {}, {.x = {x, {2, 8}}, .y = {y, {1, 4}}, .indices = {indices, {1, 4}}}));
    const std::int32_t expected[] = {0, 2, 5, 6};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(indices[i], expected[i]) << kernel << i;
    EXPECT_TRUE(std::signbit(y[0])) << kernel;
    EXPECT_TRUE(std::isnan(y[2]) && !std::signbit(y[2])) << kernel;
    EXPECT_EQ(y[3], -inf) << kernel;
  }
}

TEST(PoolExamples, RefusesWhatDoesNotFit) {
  const auto message = [](const PoolProblem& p) { return p.check().error().message; };
  EXPECT_EQ(message({.x = {4, 3}, .options = {.kernel = {2, 4}}}),
            "max_pool2d: a window spans 4 columns, the padded image has 3");
  EXPECT_EQ(message({.x = {4, 3}, .options = {.kernel = {3, 3}, .padding = {2, 0}}}),
            "max_pool2d: padding is 2 along rows, must be 0 to 1");
  EXPECT_EQ(message({.kind = PoolKind::avg_pool2d,
                     .x = {4, 3},
                     .options = {.kernel = {2, 2}, .dilation = {1, 2}}}),
            "avg_pool2d: dilation is 2 along columns, must be 1 to 1");
  EXPECT_EQ(message({.x = {4}, .options = {.kernel = {1, 1}}}),
            "max_pool2d: x has shape [4], must have 2 axes at least");
  EXPECT_EQ(message({.x = {0, 3}, .options = {.kernel = {1, 1}}}),
            "max_pool2d: an image has 0 rows, must be 1 to 2147483647");
  EXPECT_EQ(message({.x = {1 << 16, 1 << 16}, .options = {.kernel = {1, 1}}}),
            "max_pool2d: a plane of x has 4294967296 pixels, indices reach 2147483647");
  EXPECT_EQ(message({.kind = PoolKind::avg_pool2d,
                     .element_dtype = Dtype::s8,
                     .x = {2, 2},
                     .options = {.kernel = {1, 1}}}),
            "avg_pool2d: x is s8, must be f32, f64, f16 or bf16");
}

}  // namespace
}  // namespace planck
