// The typed plans of reductions, softmax, cross entropy and norms, on worked examples.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "planck/ops/norm/norm.h"
#include "planck/ops/reduce/reduce.h"
#include "planck/ops/softmax/softmax.h"

namespace planck {

namespace {

const Stream kStream = Stream::cpu(1);

TEST(TypedPlans, OfReductions) {
  const std::array<float, 6> x = {1, 2, 3, 4, 9, 6};
  std::array<float, 2> sums{};
  auto sum = SumPlan<float>::select(kStream, {.x = {2, 3}, .axes = 0b10});
  ASSERT_TRUE(sum) << sum.error().message;
  ASSERT_TRUE(sum->run(kStream, {}, {.x = {x.data(), {2, 3}}, .out = {sums.data(), {2, 1}}}));
  EXPECT_EQ(sums, (std::array<float, 2>{6, 19}));
  EXPECT_EQ(sum->precision_guarantee().reproducibility, Reproducibility::cross_device);

  std::int64_t where = -1;
  auto argmax = ArgmaxPlan<float>::select(kStream, {.x = {2, 3}});
  ASSERT_TRUE(argmax) << argmax.error().message;
  ASSERT_TRUE(argmax->run(kStream, {}, {.x = {x.data(), {2, 3}}, .out = {&where, {1, 1}}}));
  EXPECT_EQ(where, 4);

  const auto wrong = sum->run(kStream, {}, {.x = {x.data(), {3, 2}}, .out = {sums.data(), {2, 1}}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "sum: x has shape [3, 2], the descriptor says [2, 3]");
}

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
