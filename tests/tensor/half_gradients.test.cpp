// Gradients of 16-bit floats over more elements than f16 can count, and of infinite terms.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "planck/planck.h"

namespace planck {
namespace {

using A = Autodiff<Cpu>;
using F = std::vector<float>;

template <class Fn>
F gradient(const Tensor<Cpu>& x, const Fn& fn) {
  const auto leaf = Tensor<A>::from_inner(x).require_grad();
  return leaf.grad(fn(leaf).backward())->to(Dtype::f32).template to_vector<float>();
}

constexpr std::int64_t kMany = 70000;  // more than 65,520, which f16 rounds to infinity

TEST(HalfGradients, OfTheMeanOfManyAreNotZero) {
  const auto g = gradient(ones<Cpu>({kMany}, Dtype::f16), [](const auto& x) { return mean(x); });
  const float want = static_cast<float>(f16(1.0f / static_cast<float>(kMany)));
  EXPECT_GT(want, 0);
  EXPECT_EQ(g, F(kMany, want));
}

TEST(HalfGradients, OfTheVarianceOfManyAreNotZero) {
  const auto rows = reshape(arange<Cpu>(kMany), {kMany / 2, 2});
  const auto x = to_float(reshape(rows & 1, {kMany}), Dtype::f16) * 64;  // 0, 64, 0, 64, …
  const auto g = gradient(x, [](const auto& v) { return var(v); });
  const float want = static_cast<float>(f16(2.0f * 32 / static_cast<float>(kMany - 1)));
  for (std::size_t i = 0; i < g.size(); ++i) ASSERT_EQ(g[i], i % 2 == 0 ? -want : want) << i;
}

TEST(HalfGradients, OfTheLargestOfManyEqualsAreTheirShare) {
  const auto x = ones<Cpu>({2, kMany}, Dtype::f16);
  const float share = static_cast<float>(f16(1.0f / static_cast<float>(kMany)));
  EXPECT_EQ(gradient(x, [](const auto& v) { return max(v, 1); }), F(2 * kMany, share));
  EXPECT_EQ(gradient(x, [](const auto& v) { return min(v, 1); }), F(2 * kMany, share));
}

TEST(HalfGradients, OfAQuotientByALargeNumberAreNotZero) {
  const auto g = gradient(full<Cpu>({2}, 1000, Dtype::f16), [](const auto& x) { return x / 1e5; });
  EXPECT_EQ(g, F(2, static_cast<float>(f16(1e-5f))));
}

// A bound is a number of f32: f16 need not hold it, and bf16 does not round it.
TEST(HalfGradients, OfAClampBetweenNumbersThatTheyDoNotHold) {
  const auto large = Tensor<Cpu>::from({-1.f, 0.f, 3.f, 65504.f}, {4}).to(Dtype::f16);
  EXPECT_EQ(gradient(large, [](const auto& x) { return clamp(x, 0, 1e5); }), F({0, 1, 1, 1}));
  EXPECT_EQ(gradient(large, [](const auto& x) { return clamp(x, -1e5, 2.5); }), F({1, 1, 0, 0}));
  for (Dtype t : {Dtype::f16, Dtype::bf16}) {
    const auto x = Tensor<Cpu>::from({0.1f, 0.3f}, {2}).to(t);
    const auto above = x.to(Dtype::f32).to_vector<float>();
    EXPECT_EQ(gradient(x, [](const auto& v) { return clamp(v, 0.1, 0.3); }),
              F({above[0] >= 0.1f ? 1.f : 0.f, above[1] <= 0.3f ? 1.f : 0.f}))
        << name(t);
  }
}

// f32 divides by the same number as ever.
TEST(HalfGradients, OfF32KeepTheirBits) {
  Rng rng{.seed = 2};
  const auto x = normal<Cpu>(rng, {1000});
  const auto expect = F(1000, 1.0f / 1000.0f);
  EXPECT_EQ(gradient(x, [](const auto& v) { return mean(v); }), expect);
  const auto centred = (x - mean(x)).to_vector<float>();
  const auto g = gradient(x, [](const auto& v) { return var(v); });
  for (std::size_t i = 0; i < g.size(); ++i) EXPECT_EQ(g[i], 1.0f * 2 / 999.0f * centred[i]);
}

TEST(LogSumExp, OfAnInfiniteTermIsInfiniteAndItsGradientThatTerms) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto of = [&](const F& v) {
    const auto x = Tensor<Cpu>::from(v);
    EXPECT_EQ(logsumexp(x).item<float>(), inf);
    return gradient(x, [](const auto& t) { return logsumexp(t); });
  };
  EXPECT_EQ(of({inf, 1}), F({1, 0}));
  EXPECT_EQ(of({1, inf, -inf, inf}), F({0, 0.5f, 0, 0.5f}));
  F many(3000, 2.0f);  // of several chunks
  many[700] = inf;
  const auto g = of(many);
  for (std::size_t i = 0; i < g.size(); ++i) ASSERT_EQ(g[i], i == 700 ? 1.0f : 0.0f) << i;
}

TEST(LogSumExp, OfNothingFiniteAndOfNan) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto lowest = Tensor<Cpu>::from({-inf, -inf}, {2});
  EXPECT_EQ(logsumexp(lowest).item<float>(), -inf);
  EXPECT_EQ(gradient(lowest, [](const auto& t) { return logsumexp(t); }), F({0, 0}));
  for (float v :
       gradient(Tensor<Cpu>::from({inf, NAN}, {2}), [](const auto& t) { return logsumexp(t); }))
    EXPECT_TRUE(std::isnan(v));
}

}  // namespace
}  // namespace planck
