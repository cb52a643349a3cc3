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

// What else scores become, and sequences one after the other, some of them empty.
TEST_F(Gradients, OfAttentionWithOptions) {
  const ScaledDotProductOptions options[] = {
      {.soft_cap = 0.8},
      {.causal = true, .soft_cap = 1.5, .alibi = true},
      {.alibi = true},
      {.dropout = 0.4, .seed = 5, .offset = 3},
      {.causal = true, .soft_cap = 2, .alibi = true, .dropout = 0.3, .seed = 8},
      {.query_offsets = {0, 2, 2, 3}, .key_offsets = {0, 1, 2, 4}},
      {.causal = true,
       .soft_cap = 2,
       .alibi = true,
       .dropout = 0.3,
       .query_offsets = {0, 0, 3},
       .key_offsets = {0, 1, 4}},
  };
  int number = 0;
  for (const ScaledDotProductOptions& o : options) {
    const std::string at = " of options " + std::to_string(number++);
    check_gradient(("attention" + at).c_str(), Order::second,
                   [&](const auto& q, const auto& k, const auto& v) {
                     return scaled_dot_product_attention(q, k, v, o);
                   },
                   kQueries, kKeys, kValues);
    check_gradient(("y and lse with a mask" + at).c_str(), Order::second,
                   [&](const auto& q, const auto& k, const auto& v, const auto& mask) {
                     const auto [y, lse] = attention_with_lse(q, k, v, mask, o);
                     return y + unsqueeze(lse, -1);
                   },
                   kQueries, kKeys, kValues, kAdded);
  }
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
  for (const ScaledDotProductOptions& o : {ScaledDotProductOptions{},
                                           {.causal = true},
                                           {.causal = true, .window = 7},
                                           {.soft_cap = 1.5},
                                           {.causal = true, .alibi = true},
                                           {.alibi = true, .dropout = 0.3, .seed = 4, .offset = 9},
                                           {.causal = true,
                                           .soft_cap = 5,
                                           .dropout = 0.5,
                                           .query_offsets = {0, 0, 2, 3, 5},
                                           .key_offsets = {0, 3, 70, 70, 140}}}) {
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
