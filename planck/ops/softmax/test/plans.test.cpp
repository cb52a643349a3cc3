// The typed plans of softmax and cross_entropy, on worked examples.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "planck/ops/softmax/softmax.h"

namespace planck {

namespace {

const Stream kStream = Stream::cpu(1);

TEST(TypedPlans, OfSoftmaxAndCrossEntropy) {
  const std::array<double, 4> x = {0, 0, 1, 3};
  std::array<double, 4> y{}, dx{};
  auto softmax = SoftmaxPlan<double>::select(kStream, {.x = {2, 2}, .axis = 1});
  ASSERT_TRUE(softmax) << softmax.error().message;
  ASSERT_TRUE(softmax->run(kStream, {}, {.x = {x.data(), {2, 2}}, .y = {y.data(), {2, 2}}}));
  EXPECT_NEAR(y[0], 0.5, 1e-15);
  EXPECT_NEAR(y[3], 1 / (1 + std::exp(-2.0)), 1e-15);

  const std::array<std::int32_t, 2> targets = {1, 0};
  std::array<double, 2> loss{}, lse{};
  const std::array<double, 2> dloss = {1, 2};
  auto entropy = CrossEntropyPlan<double>::select(kStream, {.rows = 2, .classes = 2});
  ASSERT_TRUE(entropy) << entropy.error().message;
  const auto ran = entropy->run<std::int32_t>(kStream, {},
                                              {.x = {x.data(), {2, 2}},
                                               .targets = {targets.data(), {2}},
                                               .loss = {loss.data(), {2}},
                                               .lse = {lse.data(), {2}}});
  ASSERT_TRUE(ran) << ran.error().message;
  EXPECT_NEAR(loss[0], std::log(2.0), 1e-15);
  EXPECT_NEAR(loss[1], std::log(1 + std::exp(2.0)), 1e-15);
  auto backward = CrossEntropyBackwardPlan<double>::select(kStream, {.rows = 2, .classes = 2});
  ASSERT_TRUE(backward) << backward.error().message;
  ASSERT_TRUE(backward->run<std::int32_t>(kStream, {},
                                          {.x = {x.data(), {2, 2}},
                                           .targets = {targets.data(), {2}},
                                           .lse = {lse.data(), {2}},
                                           .dloss = {dloss.data(), {2}},
                                           .dx = {dx.data(), {2, 2}}}));
  EXPECT_NEAR(dx[0], 0.5, 1e-15);
  EXPECT_NEAR(dx[2], 2 * (y[2] - 1), 1e-15);
}

}  // namespace

}  // namespace planck
