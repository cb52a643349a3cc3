// The typed plans of the reductions, on worked examples.
#include <gtest/gtest.h>

#include <array>

#include "planck/ops/reduce/reduce.h"

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

}  // namespace

}  // namespace planck
