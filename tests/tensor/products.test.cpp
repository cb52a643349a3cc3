// Products with a bias have the bits of two ops; results lie in memory as what they are made of.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "planck/training.h"

namespace planck {
namespace {

using A = Autodiff<Cpu>;

template <class B>
std::vector<double> numbers(const Tensor<B>& t) {
  return t.to(Dtype::f64).template to_vector<double>();
}
// Bits of numbers, NaN included.
void expect_same(const std::vector<double>& want, const std::vector<double>& got,
                 const std::string& what) {
  ASSERT_EQ(want.size(), got.size()) << what;
  if (want.empty()) return;
  EXPECT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(double)), 0) << what;
}

struct Shapes {
  Shape a, b;
};
const Shapes kShapes[] = {{{1, 1}, {1, 1}},          {{3, 0}, {0, 5}},
                          {{4, 6}, {6, 3}},          {{33, 70}, {70, 45}},
                          {{2, 9, 40}, {40, 17}},    {{3, 5, 4}, {3, 4, 2}},
                          {{2, 1, 5, 4}, {3, 4, 7}}, {{130, 300}, {300, 90}},
                          {{0, 4}, {4, 3}},          {{300, 20}, {20, 3}}};

TEST(Products, WithABiasHaveTheBitsOfTwoOps) {
  Rng rng{.seed = 7};
  const float inf = INFINITY;
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16})
    for (const ProductMath math : kAllProductMath) {
      if (!serves(math, dtype)) continue;
      for (const auto& [as, bs] : kShapes)
        for (const int threads : {1, 3}) {
          const Stream on = Stream::cpu(threads);
          auto a = normal<Cpu>(rng, as, 0, 1, Dtype::f32, on).to(dtype);
          const auto b = normal<Cpu>(rng, bs, 0, 1, Dtype::f32, on).to(dtype);
          const std::int64_t n = bs[bs.rank() - 1];
          auto bias = normal<Cpu>(rng, {n}, 0, 1, Dtype::f32, on).to(dtype);
          if (a.numel() > 20) {  // a row of infinity, less infinity
            a = cat(std::vector{full_like(slice(a, -2, 0, 1), inf), slice(a, -2, 1)}, -2);
            bias = cat(std::vector{full_like(slice(bias, 0, 0, 1), -inf), slice(bias, 0, 1)});
          }
          const std::string what = fmt::format("{} {} {} x {} on {}", name(dtype), name(math),
                                               to_string(as), to_string(bs), threads);
          const auto want = numbers(matmul(a, b, {.math = math}) + bias);
          expect_same(want, numbers(matmul(a, b, bias, {.math = math})), what);
          // B by columns, a bias backwards in memory.
          const auto columns = transpose(reshape(transpose(b), transpose(b).shape()) * 1);
          const auto backwards = flip(flip(bias, {0}) * 1, {0});
          expect_same(want, numbers(matmul(a, columns, backwards, {.math = math})), what);
          // C the long way: few columns of C are rows of the product that is computed.
          if (as.rank() == 2 && bs.rank() == 2 && as[0] > 0) {
            const auto one = expand(slice(bias, 0, 0, 1), {n});
            expect_same(numbers(matmul(a, b, {.math = math}) + one),
                        numbers(matmul(a, b, one, {.math = math})), what + ", one bias");
          }
        }
    }
}

TEST(Products, ABiasOfAnotherShapeIsRefused) {
  const auto a = ones<Cpu>({2, 3}), b = ones<Cpu>({3, 4});
  const auto thrown = [&](const Tensor<Cpu>& bias) {
    try {
      (void)matmul(a, b, bias);
    } catch (const Exception& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(thrown(ones<Cpu>({4})), "");
  EXPECT_EQ(thrown(ones<Cpu>({1})), "matmul: the bias has shape [1], b has 4 columns");
  EXPECT_EQ(thrown(ones<Cpu>({2, 4})), "matmul: the bias has shape [2, 4], b has 4 columns");
  EXPECT_EQ(thrown(ones<Cpu>({4}, Dtype::f64)), "matmul: the bias is f64 [4], must be f32 [4]");
}

template <class T>
Strides strides_of(const T& tensor) {
  return A::inner(tensor.primitive()).view.strides;
}

// The gradient of a weight lies as the weight does, and has the bits of Aᵀ dC.
TEST(Products, GradientsOfWeightsLieAsTheWeights) {
  Rng rng{.seed = 3};
  const auto x = normal<A>(rng, {50, 7}, 0, 1), dy = normal<A>(rng, {50, 5}, 0, 1);
  const auto weight = normal<A>(rng, {5, 7}, 0, 1).require_grad();
  const auto by_hand = transpose(matmul(transpose(x), dy));
  const auto found = weight.grad(sum(matmul(x, transpose(weight)) * dy).backward());
  EXPECT_EQ(found->primitive().view.strides, (Strides{7, 1}));
  EXPECT_EQ(found->to_vector<float>(), by_hand.to_vector<float>());
  const auto plain = normal<A>(rng, {7, 5}, 0, 1).require_grad();
  const auto other = plain.grad(sum(matmul(x, plain) * dy).backward());
  EXPECT_EQ(other->primitive().view.strides, (Strides{5, 1}));
}

// Heads that were cut from rows of tokens are put together as a view, forward and backward.
TEST(Products, AttentionLiesAsItsOperands) {
  Rng rng{.seed = 5};
  const auto tokens = normal<Cpu>(rng, {2, 6, 3, 4}, 0, 1);  // [N, L, H, D]
  const auto heads = permute(tokens, {0, 2, 1, 3});
  const auto dense = reshape(heads, {6, 6, 4}) * 1;
  const auto y = scaled_dot_product_attention(heads, heads, heads, {.causal = true});
  EXPECT_EQ(y.primitive().view.strides, heads.primitive().view.strides);
  const auto again = reshape(dense, {2, 3, 6, 4});
  const auto z = scaled_dot_product_attention(again, again, again, {.causal = true});
  EXPECT_EQ(z.primitive().view.strides, row_major({2, 3, 6, 4}));
  EXPECT_EQ(y.to_vector<float>(), z.to_vector<float>());

  const auto q = normal<A>(rng, {2, 6, 3, 4}, 0, 1).require_grad();
  const auto of_heads = permute(q, {0, 2, 1, 3});
  const auto keys = permute(normal<A>(rng, {2, 6, 3, 4}, 0, 1), {0, 2, 1, 3});
  const auto sums = sum(square(scaled_dot_product_attention(of_heads, keys, keys)));
  EXPECT_EQ(q.grad(sums.backward())->primitive().view.strides, row_major({2, 6, 3, 4}));
}

// Of what split() gives of a projection the gradients are neighbours in one block, which is that of
// the projection: nothing is copied. Bits are those of pieces that lie alone.
TEST(Products, GradientsOfHeadsAreOneBlock) {
  Rng rng{.seed = 6};
  for (const std::int64_t groups : {4, 2}) {  // of keys and values
    const std::int64_t width = 4 * 8, narrow = groups * 8;
    const auto x = normal<A>(rng, {2, 6, width + 2 * narrow}, 0, 1).require_grad();
    const auto dy = normal<A>(rng, {2, 4, 6, 8}, 0, 1);
    const auto heads = [&](const Tensor<A>& t) {
      return permute(reshape(t, {2, 6, -1, 8}), {0, 2, 1, 3});
    };
    const auto seen = [&](const auto& q, const auto& k, const auto& v) {
      return sum(scaled_dot_product_attention(heads(q), heads(k), heads(v), {.causal = true}) * dy);
    };
    const auto [q, k, v] = split(x, {width, narrow, narrow}, 2);
    struct Cats : Observer {
      void begin(const RunningOp& op) noexcept override { copies += op.name == "cat"; }
      void end(const RunningOp&) override {}
      int copies = 0;
    } watched;
    const auto dx = *x.grad(seen(q, k, v).backward());
    EXPECT_EQ(watched.copies, 0);
    EXPECT_EQ(dx.primitive().view.strides, row_major(x.shape()));
    std::vector<Tensor<A>> alone;
    for (const auto& piece : {q, k, v}) alone.push_back((piece.detach() * 1).require_grad());
    const auto gradients = seen(alone[0], alone[1], alone[2]).backward();
    std::vector<Tensor<Cpu>> wanted;
    for (const auto& piece : alone) wanted.push_back(*piece.grad(gradients) * 1);
    EXPECT_EQ(dx.to_vector<float>(), cat(wanted, 2).to_vector<float>());
    EXPECT_EQ(watched.copies, 1);
  }
}

// Pieces of a tensor, in their order, are that tensor; others are copied.
TEST(Products, PiecesPutTogetherAreNotCopied) {
  const auto x = reshape(arange<Cpu>(24), {2, 3, 4});
  const auto place = [](const auto& t) { return t.primitive().view.data; };
  for (const int axis : {0, 1, 2}) {
    const std::int64_t n = x.extent(axis);
    const auto first = slice(x, axis, 0, 1), last = slice(x, axis, 1, n);
    const auto again = cat(std::vector{first, last}, axis);
    EXPECT_EQ(place(again), place(x));
    EXPECT_EQ(again.primitive().view.strides, row_major({2, 3, 4}));
    const auto other = cat(std::vector{last, first}, axis);
    EXPECT_NE(place(other), place(x));
    const auto wanted = cat(std::vector{last * 1, first * 1}, axis);
    EXPECT_EQ(other.template to_vector<std::int64_t>(), wanted.template to_vector<std::int64_t>());
    EXPECT_NE(place(cat(std::vector{first, first}, axis)), place(x));
    EXPECT_NE(place(cat(std::vector{first}, axis)), place(x));  // less than the block
  }
  // What is put together is a value of its own: work in place leaves the pieces as they are.
  auto whole = cat(std::vector{slice(x, 0, 0, 1), slice(x, 0, 1, 2)}, 0);
  whole = std::move(whole) + 1;
  EXPECT_EQ(x.template to_vector<std::int64_t>()[0], 0);
  EXPECT_EQ(whole.template to_vector<std::int64_t>()[23], 24);
}

// One gradient of all pieces, zeros where a piece has none.
TEST(Products, PiecesHaveOneGradient) {
  const auto x = Tensor<A>::from({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}, {2, 3}).require_grad();
  const auto [first, last] = split(x, {1, 2}, 1);
  EXPECT_EQ(first.to_vector<float>(), (std::vector<float>{1, 4}));
  EXPECT_EQ(last.to_vector<float>(), (std::vector<float>{2, 3, 5, 6}));
  EXPECT_EQ(x.grad(sum(square(last)).backward())->to_vector<float>(),
            (std::vector<float>{0, 4, 6, 0, 10, 12}));
  const auto [a, b] = split(x, {1, 2}, 1);
  EXPECT_EQ(x.grad((sum(a * 3) + sum(square(b))).backward())->to_vector<float>(),
            (std::vector<float>{3, 4, 6, 3, 10, 12}));
  EXPECT_THROW((void)split(x, {1, 1}, 1), Exception);
  const auto whole = Tensor<Cpu, IntKind>::from({1, 2, 3, 4}, {4});
  EXPECT_EQ(split(whole, {3, 1})[1].to_vector<std::int32_t>(), (std::vector<std::int32_t>{4}));
}

}  // namespace
}  // namespace planck
