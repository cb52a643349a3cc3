// Tensors as values: storage shared or reused, views, dtypes, devices, printing, quantized
// products.
#include <sstream>

#include "tests/autodiff/tested_backend.h"

namespace planck::test {

namespace {

using Tensors = Gradients;
using F = std::vector<float>;

TEST_F(Tensors, ViewsShareStorage) {
  const auto x = Tensor<B>::from({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {2, 3});
  const auto shares = [&](const Tensor<B>& t) {
    return t.primitive().storage == x.primitive().storage;
  };
  EXPECT_TRUE(shares(reshape(x, {3, 2})));
  EXPECT_TRUE(shares(transpose(x)));
  EXPECT_TRUE(shares(slice(x, 1, 0, 3, 2)));
  EXPECT_TRUE(shares(expand(slice(x, 0, 1, 2), {4, 3})));
  EXPECT_TRUE(shares(flip(x, {0, 1})));
  EXPECT_FALSE(shares(reshape(transpose(x), {6})));  // only a copy can be seen so
  EXPECT_EQ(reshape(transpose(x), {6}).to_vector<float>(), F({1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(flip(x, {1}).to_vector<float>(), F({3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(slice(x, 1, -1, INT64_MAX, -2).to_vector<float>(), F({3, 1, 6, 4}));
  EXPECT_EQ((repeat(x, {1, 2}).to_vector<float>()), F({1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(x.to_vector<float>(), F({1, 2, 3, 4, 5, 6}));
}

TEST_F(Tensors, TemporariesGiveTheirBufferAway) {
  const auto x = Tensor<B>::from({1.f, 2.f}, {2});
  auto t = x * 2;
  const void* buffer = t.primitive().storage->data();
  const auto y = std::move(t) + 1;
  EXPECT_EQ(y.primitive().storage->data(), buffer);
  EXPECT_EQ(y.template to_vector<float>(), F({3, 5}));
  const auto kept = x + 1;  // a tensor that someone holds is never written to
  EXPECT_NE(kept.primitive().storage->data(), x.primitive().storage->data());
  EXPECT_EQ(x.to_vector<float>(), F({1, 2}));
}

TEST_F(Tensors, CarryTheirDtype) {
  for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16}) {
    const auto x = full<B>({3}, 1.5, t);
    EXPECT_EQ((x + x).dtype(), t);
    EXPECT_EQ(to_float(exp(x) * 0 + 2, Dtype::f32).template to_vector<float>(), F({2, 2, 2}));
    EXPECT_EQ(sum(x).dtype(), t);
  }
  EXPECT_THROW((void)(full<B>({1}, 1, Dtype::f32) + full<B>({1}, 1, Dtype::f64)), Exception);
  const auto i = to_int(Tensor<B>::from({-1.7f, 2.2f}, {2}));
  EXPECT_EQ((i + i).template to_vector<std::int64_t>(), (std::vector<std::int64_t>{-2, 4}));
  EXPECT_EQ(arange<B>(4).template to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST_F(Tensors, GoFromBackendToBackend) {
  const auto x = Tensor<B>::from({1.f, 2.f, 3.f}, {3});
  int backends = 0;
  for_each_backend([&]<class Other>(std::type_identity<Other>) {
    for (Dtype t : kFloatDtypes) {
      const auto there = to_float(x, t).template to<Other>();
      EXPECT_EQ(to_float((there * 2).template to<B>(), Dtype::f32).template to_vector<float>(),
                F({2, 4, 6}));
    }
    ++backends;
  });
  EXPECT_GE(backends, 1);
  EXPECT_THROW((void)Tensor<A>(A::from_inner(x.primitive())).require_grad().template to<B>(),
               Exception);
  EXPECT_THROW((void)(x + x.to(B::default_device()) + full<B>({1}, 0, Dtype::f16)), Exception);
}

TEST_F(Tensors, AssemblePieces) {
  const auto x = Tensor<B>::from({1.f, 2.f, 3.f, 4.f}, {2, 2});
  EXPECT_EQ(cat(std::vector{x, x * 10}, 1).template to_vector<float>(),
            F({1, 2, 10, 20, 3, 4, 30, 40}));
  EXPECT_EQ(stack(std::vector{x, x}, 0).shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(pad(x, {1, 0}, {0, 1}, 9).template to_vector<float>(), F({9, 9, 9, 1, 2, 9, 3, 4, 9}));
  EXPECT_EQ(pad(x, {-1, 0}, {0, -1}).template to_vector<float>(), F({3}));
  const std::vector<std::int64_t> sizes = {1, 1};
  EXPECT_EQ(split(x, sizes, 1)[1].template to_vector<float>(), F({2, 4}));
  EXPECT_EQ(slice_assign(x, zeros_like(slice(x, 0, 0, 1)), 0, 0, 1).template to_vector<float>(),
            F({0, 0, 3, 4}));
  EXPECT_THROW((void)cat(std::vector{x, slice(x, 1, 0, 1)}, 0), Exception);
}

TEST_F(Tensors, PrintLikeNumPy) {
  const auto print = [](const auto& t) {
    std::ostringstream out;
    out << t;
    return out.str();
  };
  EXPECT_EQ(print(Tensor<B>::from({1.f, 2.5f, -3.f, 100.f}, {2, 2})),
            "[[  1.    2.5]\n [ -3.  100. ]]");
  EXPECT_EQ(print(arange<B>(3)), "[0 1 2]");
  EXPECT_EQ(print(Tensor<B>::scalar(0.5f)), "0.5");
  EXPECT_EQ(print(gt(Tensor<B>::from({1.f, 2.f}, {2}), full<B>({2}, 1.5))), "[false  true]");
  EXPECT_EQ(print(zeros<B>({0, 3})), "[] f32 [0, 3]");
  const auto many = print(zeros<B>({2000}));
  EXPECT_EQ(many, "[0. 0. 0. ... 0. 0. 0.]");
}

TEST_F(Tensors, MultiplyQuantized) {
  Rng rng{.seed = 5};
  const auto a = normal<B>(rng, {6, 40}), b = normal<B>(rng, {40, 3});
  const auto qa = dynamic_quantize(a, {.granularity = Granularity::per_token});
  const auto qb = dynamic_quantize(b, {.granularity = Granularity::per_channel, .axis = 1});
  const auto exact =
      to_float(matmul(to_float(qa.values(), Dtype::f64), to_float(qb.values(), Dtype::f64)),
               Dtype::f32) *
      reshape(qa.scale(), {6, 1}) * reshape(qb.scale(), {3});
  EXPECT_EQ(q_matmul(qa, qb).template to_vector<float>(), exact.template to_vector<float>());
  const auto near = matmul(a, b).template to_vector<float>();
  const auto got = q_matmul(qa, qb).template to_vector<float>();
  for (std::size_t i = 0; i < near.size(); ++i) EXPECT_NEAR(got[i], near[i], 0.3f);
  const auto s4 = dynamic_quantize(a, {.granularity = Granularity::per_token, .dtype = Dtype::s4});
  EXPECT_THROW((void)q_matmul(s4, qb), Exception);
}

TEST_F(Tensors, RandomNumbersAreAFunctionOfTheirPosition) {
  Rng rng{.seed = 9}, same{.seed = 9};
  const auto all = uniform<B>(rng, {10});
  EXPECT_EQ(uniform<B>(same, {10}).template to_vector<float>(), all.template to_vector<float>());
  EXPECT_NE(uniform<B>(same, {10}).template to_vector<float>(), all.template to_vector<float>());
}

}  // namespace

}  // namespace planck::test
