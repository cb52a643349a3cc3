// The typed plans of the norms, on worked examples.
#include <gtest/gtest.h>

#include <array>

#include "planck/ops/norm/norm.h"

namespace planck {

namespace {

const Stream kStream = Stream::cpu(1);

TEST(TypedPlans, OfNorms) {
  const std::array<float, 4> x = {1, 3, -2, 2}, weight = {2, 1, 0, 0};
  std::array<float, 4> y{};
  std::array<float, 2> mean{}, rstd{};
  auto plan = LayerNormPlan<float>::select(kStream, {.x = {2, 2}, .weighted = true, .eps = 0});
  ASSERT_TRUE(plan) << plan.error().message;
  const auto ran = plan->run(kStream, {},
                             {.x = {x.data(), {2, 2}},
                              .weight = {weight.data(), {2}},
                              .y = {y.data(), {2, 2}},
                              .mean = {mean.data(), {2}},
                              .rstd = {rstd.data(), {2}}});
  ASSERT_TRUE(ran) << ran.error().message;
  EXPECT_EQ(y, (std::array<float, 4>{-2, 1, -2, 1}));
  EXPECT_EQ(mean, (std::array<float, 2>{2, 0}));
  EXPECT_EQ(rstd, (std::array<float, 2>{1, 0.5f}));
}

}  // namespace

}  // namespace planck
