// Many heads of few numbers are computed in another way than few: each must have the bits, forward
// and backward, that it has alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "planck/planck.h"

namespace planck {
namespace {

using A = Autodiff<Cpu>;

struct Shapes {
  std::int64_t heads, groups, queries, keys, width, out_width;
  ScaledDotProductOptions options;
  bool not_finite = false;
};

std::vector<float> numbers(std::int64_t n, std::uint64_t seed) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < n; ++i)
    out.push_back(std::sin(0.37f * static_cast<float>(i) + static_cast<float>(seed)));
  return out;
}

// y, dq, dk and dv of samples [first, end).
std::vector<std::vector<float>> results(const Shapes& s, std::int64_t first, std::int64_t end) {
  const auto make = [&](std::int64_t heads, std::int64_t rows, std::int64_t width,
                        std::uint64_t seed) {
    const std::int64_t each = heads * rows * width;
    std::vector<float> all = numbers(5 * each, seed);
    if (s.not_finite) all[static_cast<std::size_t>(each + 3 * width + 1)] = INFINITY;
    const Shape shape = {end - first, rows, heads, width};
    return permute(
               Tensor<A>::from(
                   std::vector<float>(all.begin() + first * each, all.begin() + end * each), shape),
               {0, 2, 1, 3})
        .detach()
        .require_grad();
  };
  const auto q = make(s.heads, s.queries, s.width, 1), k = make(s.groups, s.keys, s.width, 2),
             v = make(s.groups, s.keys, s.out_width, 3);
  const auto y = scaled_dot_product_attention(q, k, v, s.options);
  const auto g = sum(y * make(s.heads, s.queries, s.out_width, 4).detach()).backward();
  return {y.to_vector<float>(), q.grad(g)->to_vector<float>(), k.grad(g)->to_vector<float>(),
          v.grad(g)->to_vector<float>()};
}

bool same_bits(const std::vector<float>& a, const float* b) {
  return std::memcmp(a.data(), b, a.size() * sizeof(float)) == 0;
}

TEST(AttentionSmallHeads, HaveTheBitsThatTheyHaveAlone) {
  const ScaledDotProductOptions causal{.causal = true};
  ScaledDotProductOptions window = causal;
  window.window = 40;
  ScaledDotProductOptions bent = causal;
  bent.soft_cap = 2, bent.alibi = true;
  for (const Shapes& s :
       {Shapes{4, 4, 128, 128, 32, 32, causal}, Shapes{4, 4, 128, 128, 32, 32, {}},
        Shapes{4, 4, 131, 131, 32, 16, causal}, Shapes{8, 4, 70, 90, 16, 32, causal},
        Shapes{4, 4, 140, 140, 32, 32, window}, Shapes{4, 4, 33, 45, 20, 12, causal},
        Shapes{4, 4, 96, 96, 32, 32, bent}, Shapes{4, 4, 64, 64, 32, 32, causal, true}}) {
    const auto all = results(s, 0, 5);  // 20 heads of k and v
    for (std::int64_t n = 0; n < 5; ++n) {
      const auto alone = results(s, n, n + 1);
      for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_TRUE(
            same_bits(alone[i], all[i].data() + static_cast<std::size_t>(n) * alone[i].size()))
            << "result " << i << " of sample " << n << ", " << s.queries << " queries";
    }
  }
}

}  // namespace
}  // namespace planck
