// Ranges, triangles, random choices: values, and the same bits on every backend of this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "planck/math/random.h"
#include "planck/planck.h"

namespace planck {
namespace {

using F = std::vector<float>;
using I64 = std::vector<std::int64_t>;

template <class Fn>
std::string refusal(Fn&& fn) {
  try {
    (void)fn();
  } catch (const Exception& e) {
    return e.what();
  }
  return "";
}

TEST(Creation, RangesOfIntegers) {
  const auto values = [](const auto& x) { return x.template to_vector<std::int64_t>(); };
  EXPECT_EQ(values(arange<Cpu>(2, 6)), I64({2, 3, 4, 5}));
  EXPECT_EQ(values(arange<Cpu>(0, 7, 3)), I64({0, 3, 6}));
  EXPECT_EQ(values(arange<Cpu>(5, -2, -3)), I64({5, 2, -1}));
  EXPECT_EQ(values(arange<Cpu>(3, 3)), I64({}));
  EXPECT_EQ(values(arange<Cpu>(INT64_MIN, INT64_MAX, INT64_MAX)),
            I64({INT64_MIN, -1, INT64_MAX - 1}));
  EXPECT_EQ(refusal([] { return arange<Cpu>(0, 5, 0); }), "arange: the step is 0");
  EXPECT_EQ(refusal([] { return arange<Cpu>(0, std::int64_t{1} << 33, 1 << 30, Dtype::i32); }),
            "arange: 7516192768 does not fit i32, which goes from -2147483648 to 2147483647");
}

TEST(Creation, RangesOfFloatsRoundOnce) {
  const auto x = arange<Cpu>(0, 1.0, 0.1).to_vector<float>();
  ASSERT_EQ(x.size(), 10u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(x[std::size_t(i)], static_cast<float>(0.1 * i));
  EXPECT_EQ(arange<Cpu>(1.0, 0.0, -0.25).to_vector<float>(), F({1, 0.75, 0.5, 0.25}));
  EXPECT_NE(refusal([] { return arange<Cpu>(0.0, INFINITY); }), "");
}

TEST(Creation, LinspaceMeetsBothEnds) {
  for (const std::int64_t n : {2, 3, 10, 11, 1001}) {
    const auto x = linspace<Cpu>(-0.1, 0.7, n, Dtype::f64).to_vector<double>();
    ASSERT_EQ(x.size(), static_cast<std::size_t>(n));
    EXPECT_EQ(x.front(), -0.1);
    EXPECT_EQ(x.back(), 0.7);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(x[i], -0.1 + 0.8 * double(i) / double(n - 1), 1e-15);
  }
  EXPECT_EQ(linspace<Cpu>(3, 4, 1).to_vector<float>(), F({3}));
  EXPECT_EQ(linspace<Cpu>(3, 4, 0).numel(), 0);
  EXPECT_EQ(refusal([] { return linspace<Cpu>(0, 1, -1); }), "linspace: -1 elements");
}

TEST(Creation, TrianglesAndTheIdentity) {
  const float inf = INFINITY;
  const auto x = Tensor<Cpu>::from({1.f, 2.f, inf, 4.f, 5.f, 6.f}, {2, 3});
  EXPECT_EQ(tril(x).to_vector<float>(), F({1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(tril(x, 1).to_vector<float>(), F({1, 2, 0, 4, 5, 6}));
  EXPECT_EQ(tril(x, -1).to_vector<float>(), F({0, 0, 0, 4, 0, 0}));
  EXPECT_EQ(triu(x).to_vector<float>(), F({1, 2, inf, 0, 5, 6}));
  EXPECT_EQ(triu(x, 2).to_vector<float>(), F({0, 0, inf, 0, 0, 0}));
  EXPECT_EQ(tril(ones<Cpu>({2, 2, 2})).to_vector<float>(), F({1, 0, 1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(triu(full<Cpu, BoolKind>({2, 2}, true)).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{1, 1, 0, 1}));
  EXPECT_EQ(refusal([] { return tril(ones<Cpu>({3})); }),
            "tril: shape [3] has fewer than two axes");
  EXPECT_EQ(eye<Cpu>(2).to_vector<float>(), F({1, 0, 0, 1}));
  EXPECT_EQ((eye<Cpu, IntKind>(2, 3).to_vector<std::int64_t>()), I64({1, 0, 0, 0, 1, 0}));
}

TEST(Random, IntegersAreWithinTheirEndsAndEquallyLikely) {
  Rng rng{.seed = 3};
  const auto x = randint<Cpu>(rng, -3, 7, {50000}).to_vector<std::int64_t>();
  std::map<std::int64_t, int> counts;
  for (std::int64_t v : x) ++counts[v];
  ASSERT_EQ(counts.size(), 10u);
  EXPECT_EQ(counts.begin()->first, -3);
  EXPECT_EQ(counts.rbegin()->first, 6);
  for (const auto& [v, n] : counts) EXPECT_NEAR(n, 5000, 300) << v;
  const auto wide = randint<Cpu>(rng, 0, std::int64_t{1} << 53, {1000}).to_vector<std::int64_t>();
  EXPECT_LT(*std::max_element(wide.begin(), wide.end()), std::int64_t{1} << 53);
  EXPECT_EQ(refusal([&] { return randint<Cpu>(rng, 3, 3, {1}); }),
            "randint: low is 3, high 3: there is no integer in between");
  EXPECT_NE(refusal([&] { return randint<Cpu>(rng, 0, 300, {1}, Dtype::u8); }), "");
}

TEST(Random, PermutationsHoldEveryNumberOnce) {
  Rng rng{.seed = 3};
  auto x = randperm<Cpu>(rng, 1000).to_vector<std::int64_t>();
  auto y = randperm<Cpu>(rng, 1000).to_vector<std::int64_t>();
  EXPECT_NE(x, y);
  I64 sorted(1000);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_NE(x, sorted);
  std::sort(x.begin(), x.end());
  EXPECT_EQ(x, sorted);
  EXPECT_EQ(randperm<Cpu>(rng, 0).numel(), 0);
  std::map<I64, int> orders;  // all 6 of 3
  for (int i = 0; i < 1200; ++i) ++orders[randperm<Cpu>(rng, 3).to_vector<std::int64_t>()];
  ASSERT_EQ(orders.size(), 6u);
  for (const auto& [order, n] : orders) EXPECT_NEAR(n, 200, 60);
}

TEST(Random, CategoriesComeByWeight) {
  Rng rng{.seed = 8};
  const auto w = Tensor<Cpu>::from({1, 0, 3, 4, 0, 0, 2, 0}, {2, 4});
  const auto drawn = multinomial(rng, w, 20000, true);
  ASSERT_EQ(drawn.shape(), (Shape{2, 20000}));
  for (const std::int64_t row : {0, 1}) {
    std::map<std::int64_t, int> counts;
    for (std::int64_t v : drawn[row].to_vector<std::int64_t>()) ++counts[v];
    if (row == 1) {
      EXPECT_EQ(counts, (std::map<std::int64_t, int>{{2, 20000}}));
      continue;
    }
    ASSERT_EQ(counts.size(), 3u);
    EXPECT_NEAR(counts[0], 2500, 200);
    EXPECT_NEAR(counts[2], 7500, 250);
    EXPECT_NEAR(counts[3], 10000, 300);
  }
}

TEST(Random, CategoriesWithoutReplacementAreDistinct) {
  Rng rng{.seed = 8};
  const auto w = expand(Tensor<Cpu>::from({1, 0, 3, 6}, {4}), {20000, 4});
  const auto drawn = multinomial(rng, w, 3).to_vector<std::int64_t>();
  double first = 0, second = 0;
  for (std::size_t i = 0; i < drawn.size(); i += 3) {
    std::array<std::int64_t, 3> row = {drawn[i], drawn[i + 1], drawn[i + 2]};
    first += row[0] == 3;
    second += row[0] == 3 && row[1] == 2;
    std::sort(row.begin(), row.end());
    ASSERT_EQ(row, (std::array<std::int64_t, 3>{0, 2, 3}));
  }
  EXPECT_NEAR(first / 20000, 0.6, 0.02);
  EXPECT_NEAR(second / 20000, 0.6 * 0.75, 0.02);
}

TEST(Random, WeightsThatCannotBeDrawnAreRefused) {
  Rng rng;
  const auto refused = [&](std::initializer_list<double> w, std::int64_t n, bool again) {
    const auto count = static_cast<std::int64_t>(w.size());
    return refusal([&] { return multinomial(rng, Tensor<Cpu>::from(w, {count}), n, again); });
  };
  const std::string unlawful = "multinomial: weights must be finite and not negative";
  EXPECT_EQ(refused({1, -1}, 1, true), unlawful);
  EXPECT_EQ(refused({1, NAN}, 1, true), unlawful);
  EXPECT_EQ(refused({1, INFINITY}, 1, false), unlawful);
  EXPECT_EQ(refused({0, 0}, 1, true), "multinomial: 1 samples of a row with 0 weights above 0");
  EXPECT_EQ(refused({1, 0, 2}, 3, false), "multinomial: 3 samples of a row with 2 weights above 0");
  EXPECT_EQ(refused({1, 0, 2}, 0, false), "");
}

// What is drawn is a function of the seed: these are the numbers of every device.
TEST(Random, ChoicesAreTheSameEverywhere) {
  std::vector<I64> all;
  int backends = 0;
  for_each_backend([&]<class B>(std::type_identity<B>) {
    Rng rng{.seed = 11};
    const auto w = Tensor<B>::from({0.5, 1.5, 3, 0, 2}, {5});
    const std::vector<I64> drawn = {
        randint<B>(rng, 0, 1000000, {64}).template to_vector<std::int64_t>(),
        randperm<B>(rng, 64).template to_vector<std::int64_t>(),
        multinomial(rng, w, 64, true).template to_vector<std::int64_t>(),
        multinomial(rng, w, 4).template to_vector<std::int64_t>(),
        (arange<B>(64) << (arange<B>(64) & 31)).template to_vector<std::int64_t>(),
        to_int(linspace<B>(0, 1e6, 64)).template to_vector<std::int64_t>()};
    if (all.empty()) all = drawn;
    EXPECT_EQ(drawn, all);
    ++backends;
  });
  EXPECT_GE(backends, 1);
  for (std::uint64_t i = 0; i < 64; ++i) {  // two words of the stream for each
    const Philox4 w = PhiloxStream{11, 0}.words(i / 2);
    const double u = uniform01(w.v[i % 2 * 2], w.v[i % 2 * 2 + 1]);
    EXPECT_EQ(all[0][i], static_cast<std::int64_t>(u * 1e6));
  }
}

}  // namespace
}  // namespace planck
