// Gradients of cummax and cummin, and what the functions give. Compiled once for each backend.
#include <cmath>

#include "tests/autodiff/gradcheck.h"
#include "tests/autodiff/tested_backend.h"
#include "tests/reference/index.h"

namespace planck::test {

namespace {

using Doubles = std::vector<double>;
using Ints = std::vector<std::int64_t>;

TEST_F(Gradients, OfRunningExtremes) {
  const Input box{{2, 4, 3}};
  CHECK1(kSecond, square(cummax(x, 1).values), box);
  CHECK1(kSecond, cummax(square(x), 0).values, box);
  CHECK1(kSecond, exp(cummax(x, -1).values) * x, box);
  CHECK1(kSecond, square(cummin(x, 1).values), box);
  CHECK1(kSecond, cummin(exp(x), 2).values, box);
  CHECK1(kSecond, cummin(cummax(square(x), 1).values, 2).values, box);
}

// All of it goes to the last of equal values, as in PyTorch; zeros of both signs are equal.
TEST_F(Gradients, OfTiedRunningExtremesGoToTheLast) {
  const auto x = Tensor<A>::template from<double>({1, 3, 3, 2, 3, 5, 5}, {7}).require_grad();
  const auto weights = Tensor<A>::template from<double>({1, 2, 4, 8, 16, 32, 64}, {7});
  const auto [values, indices] = cummax(x, 0);
  EXPECT_EQ(values.inner().template to_vector<double>(), (Doubles{1, 3, 3, 3, 3, 5, 5}));
  EXPECT_EQ(indices.template to_vector<std::int64_t>(), (Ints{0, 1, 2, 2, 4, 5, 6}));
  EXPECT_EQ(x.grad(sum(values * weights).backward())->template to_vector<double>(),
            (Doubles{1, 2, 12, 0, 16, 32, 64}));

  const auto z = Tensor<A>::template from<double>({0.0, -0.0, 0.0}, {3}).require_grad();
  const auto low = cummin(z, 0);
  EXPECT_EQ(low.indices.template to_vector<std::int64_t>(), (Ints{0, 1, 2}));
  EXPECT_EQ(z.grad(sum(low.values).backward())->template to_vector<double>(), (Doubles{1, 1, 1}));
}

// The derivative of the gradient goes where the gradient goes: of Σ w m², m the running maximum,
// with m last at k, it is 2 Σ w.
TEST_F(Gradients, OfTheGradientOfTiedRunningExtremes) {
  using AA = Autodiff<A>;
  const auto inner = Tensor<A>::template from<double>({2, 4, 4, 1}, {4}).require_grad();
  const auto x = Tensor<AA>(AA::require_grad(AA::from_inner(inner.primitive())));
  const auto first = *x.grad(sum(square(cummax(x, 0).values)).backward());
  EXPECT_EQ(first.inner().template to_vector<double>(), (Doubles{4, 8, 16, 0}));
  EXPECT_EQ(inner.grad(sum(first).backward())->template to_vector<double>(), (Doubles{2, 2, 4, 0}));
}

TEST_F(Gradients, OfRunningExtremesAfterNanGoToTheNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool largest : {true, false}) {
    const auto x = Tensor<A>::template from<double>({1, nan, 9, nan, -9}, {5}).require_grad();
    const auto [values, indices] = largest ? cummax(x, 0) : cummin(x, 0);
    EXPECT_EQ(indices.template to_vector<std::int64_t>(), (Ints{0, 1, 1, 3, 3}));
    const auto v = values.inner().template to_vector<double>();
    EXPECT_EQ(v[0], 1);
    for (std::size_t i = 1; i < 5; ++i) EXPECT_TRUE(std::isnan(v[i])) << i;
    EXPECT_EQ(x.grad(sum(values).backward())->template to_vector<double>(),
              (Doubles{1, 2, 0, 2, 0}));
  }
}

TEST_F(Gradients, RunningExtremesServeIntegersAndRefuseWrongAxes) {
  const auto x = Tensor<B, IntKind>::template from<std::int64_t>({3, 1, 2, 7, 5, 9}, {2, 3});
  const auto [values, indices] = cummin(x, -1);
  EXPECT_EQ(values.template to_vector<std::int64_t>(), (Ints{3, 1, 1, 7, 5, 5}));
  EXPECT_EQ(indices.template to_vector<std::int64_t>(), (Ints{0, 1, 1, 0, 1, 1}));
  EXPECT_EQ(cummax(x, 0).indices.template to_vector<std::int64_t>(), (Ints{0, 0, 0, 1, 1, 1}));
  EXPECT_THROW((void)cummax(x, 2), Exception);
}

}  // namespace

}  // namespace planck::test
