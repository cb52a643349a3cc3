// Gradients of attention: groups, causal, windows, both kinds of masks; and the fused op against
// the one of simpler ops.
#include <cmath>

#include "tests/autodiff/gradcheck.h"
#include "tests/autodiff/tested_backend.h"

namespace planck::test {

namespace {

const Input kQueries{{1, 2, 3, 4}}, kKeys{{1, 1, 4, 4}}, kValues{{1, 1, 4, 2}};
const Input kAdded{{3, 4}};

// Hides key 1 of the first query and all keys of the second.
template <class X>
Tensor<X, BoolKind> hidden(const Tensor<X>& like) {
  const auto at = Tensor<X, IntKind>::from(
      std::vector<std::int64_t>{0, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0}, {3, 4}, like.device());
  return gt(at, zeros_like(at));
}

TEST_F(Gradients, OfAttention) {
  check_gradient(
      "attention", Order::second,
      [](const auto& q, const auto& k, const auto& v) {
        return scaled_dot_product_attention(q, k, v);
      },
      kQueries, kKeys, kValues);
  check_gradient(
      "causal, in a window", Order::second,
      [](const auto& q, const auto& k, const auto& v) {
        return scaled_dot_product_attention(q, k, v, {.scale = 0.75, .causal = true, .window = 2});
      },
      kQueries, kKeys, kValues);
  check_gradient(
      "with hidden keys", Order::second,
      [](const auto& q, const auto& k, const auto& v) {
        return scaled_dot_product_attention(q, k, v, hidden(q));
      },
      kQueries, kKeys, kValues);
}

TEST_F(Gradients, OfAMaskThatIsAdded) {
  check_gradient(
      "with a mask", Order::second,
      [](const auto& q, const auto& k, const auto& v, const auto& mask) {
        return scaled_dot_product_attention(q, k, v, mask);
      },
      kQueries, kKeys, kValues, kAdded);
}

// lse alone, and beside y, which share one pass; the second query sees nothing, its lse is -Inf.
TEST_F(Gradients, OfTheLogOfTheSum) {
  check_gradient(
      "lse", Order::second,
      [](const auto& q, const auto& k, const auto& v) {
        return attention_with_lse(q, k, v, {.scale = 0.75}).second;
      },
      kQueries, kKeys, kValues);
  check_gradient(
      "y and lse", Order::second,
      [](const auto& q, const auto& k, const auto& v) {
        const auto [y, lse] = attention_with_lse(q, k, v, {.causal = true, .window = 2});
        return y * unsqueeze(lse, -1);
      },
      kQueries, kKeys, kValues);
  check_gradient(
      "y and lse, with hidden keys", Order::second,
      [](const auto& q, const auto& k, const auto& v) {
        const auto [y, lse] = attention_with_lse(q, k, v, hidden(q));
        return cat(std::vector{select(y, 2, 0) * unsqueeze(select(lse, 2, 0), -1), select(y, 2, 1),
                               select(y, 2, 2)},
                   2);
      },
      kQueries, kKeys, kValues);
  check_gradient(
      "lse with a mask", Order::second,
      [](const auto& q, const auto& k, const auto& v, const auto& mask) {
        const auto [y, lse] = attention_with_lse(q, k, v, mask);
        return y + unsqueeze(lse, -1);
      },
      kQueries, kKeys, kValues, kAdded);
}

TEST_F(Gradients, OfAttentionWithoutTheKernel) {
  const auto waves = [](const Shape& shape, double step) {
    const auto at = full<B>({numel(shape)}, step, Dtype::f64);
    return reshape(sin(cumsum(at, 0)) * 2, shape);
  };
  const auto q = waves({2, 4, 5, 6}, 0.7), k = waves({2, 2, 140, 6}, 1.3),
             v = waves({2, 2, 140, 3}, 2.1);
  for (const ScaledDotProductOptions& o :
       {ScaledDotProductOptions{}, {.causal = true}, {.causal = true, .window = 7}}) {
    const auto y = scaled_dot_product_attention(q, k, v, o).template to_vector<double>();
    const auto simple = attention_detail::composed(q, k, v, o).template to_vector<double>();
    ASSERT_EQ(y.size(), simple.size());
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], simple[i], 1e-13);
  }
  EXPECT_THROW((void)scaled_dot_product_attention(q, v, v), Exception);
  EXPECT_THROW((void)scaled_dot_product_attention(q, k, v, {.window = 2}), Exception);
}

}  // namespace

}  // namespace planck::test
