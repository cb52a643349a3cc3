// What follows a product has the bits of ops of its own, on tensors: values and gradients,
// whichever kernel computes it. What a problem with it refuses.
#include <gtest/gtest.h>

#include "planck/planck.h"

namespace planck {
namespace {

using A = Autodiff<Cpu>;

template <class B>
Tensor<B> activated(Activation a, const Tensor<B>& x) {
  if (a == Activation::relu) return relu(x);
  if (a == Activation::gelu) return gelu(x);
  return a == Activation::silu ? silu(x) : x;
}

std::vector<std::byte> bytes_of(const Tensor<Cpu>& x) {
  std::vector<std::byte> bytes(bytes_for(x.dtype(), x.numel()));
  Cpu::to_host(x.primitive(), bytes.data());
  return bytes;
}
bool same(const Tensor<Cpu>& x, const Tensor<Cpu>& y) {
  return x.shape() == y.shape() && x.dtype() == y.dtype() && bytes_of(x) == bytes_of(y);
}

Shape with_matrix(Shape batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows), batch.push_back(columns);
  return batch;
}

struct Inputs {
  Rng rng{.seed = 7};
  Stream at;
  Dtype dtype;
  Tensor<Cpu> a, b, bias, residual;

  Inputs(Dtype of, const Shape& batch, std::int64_t m, std::int64_t n, std::int64_t k,
         ProductMath math)
      : at(Stream::cpu(2).with_math(math)),
        dtype(of),
        a(made(with_matrix(batch, m, k))),
        b(made({k, n})),
        bias(made({n})),
        residual(made(with_matrix(batch, m, n))) {}
  Tensor<Cpu> made(const Shape& shape) { return normal<Cpu>(rng, shape, 0, 1, dtype, at); }
};

TEST(MatmulEpilogue, HasTheBitsOfOps) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16})
    for (const ProductMath math : kAllProductMath) {
      if (!serves(math, dtype)) continue;
      for (const auto& [batch, m, n, k] : {std::tuple<Shape, int, int, int>{{}, 3, 5, 7},
                                           {{}, 70, 130, 300},
                                           {{2, 3}, 5, 33, 40},
                                           {{}, 1, 300, 20},
                                           {{}, 260, 3, 33},
                                           {{}, 4, 4, 0}}) {
        const Inputs in(dtype, batch, m, n, k, math);
        for (const Activation activation : kAllActivations) {
          const MatmulOptions options{.math = math, .activation = activation};
          const auto z = matmul(in.a, in.b, {.math = math});
          const auto where = [&] {
            return testing::Message() << name(dtype) << " " << name(math) << " " << m << " " << n
                                      << " " << k << " " << name(activation);
          };
          EXPECT_TRUE(same(matmul(in.a, in.b, options), activated(activation, z))) << where();
          const auto biased = activated(activation, z + in.bias);
          EXPECT_TRUE(same(matmul(in.a, in.b, in.bias, options), biased)) << where();
          EXPECT_TRUE(same(matmul(in.a, in.b, in.bias, in.residual, options), biased + in.residual))
              << where();
          EXPECT_TRUE(same(matmul(in.a, in.b, std::nullopt, in.residual, options),
                           activated(activation, z) + in.residual))
              << where();
        }
      }
    }
}

// A residual that lies across the rows of C, and one that is a row for all.
TEST(MatmulEpilogue, TakesResidualsOfAnyStrides) {
  Inputs in(Dtype::f32, {}, 70, 90, 40, ProductMath::chain);
  const auto z = matmul(in.a, in.b);
  const auto across = transpose(in.made({90, 70}));
  EXPECT_TRUE(same(matmul(in.a, in.b, std::nullopt, across), z + across));
  const auto row = expand(reshape(in.bias, {1, 90}), {70, 90});
  EXPECT_TRUE(same(matmul(in.a, in.b, std::nullopt, row), z + in.bias));
}

// By the function, which keeps an activation's argument, and by the op, which computes it again.
TEST(MatmulEpilogue, HasTheGradientsOfOps) {
  const Inputs in(Dtype::f32, {}, 9, 12, 20, ProductMath::chain);
  const auto tracked = [](const Tensor<Cpu>& x) { return x.to<A>().require_grad(); };
  for (const Activation activation : kAllActivations)
    for (int way = 0; way < 2; ++way) {
      const auto a = tracked(in.a), b = tracked(in.b), bias = tracked(in.bias),
                 residual = tracked(in.residual);
      const auto weights = in.residual.to<A>();
      const auto y =
          way == 0 ? matmul(a, b, bias, residual, {.activation = activation})
                   : call(Matmul{.activation = activation, .residual = true}, a, b, bias, residual);
      const auto got = sum(y * weights).backward();
      const auto z = activated(activation, matmul(a, b) + bias) + residual;
      EXPECT_TRUE(same(y.inner(), z.inner())) << name(activation);
      const auto expected = sum(z * weights).backward();
      for (const auto* x : {&a, &b, &bias, &residual})
        EXPECT_TRUE(same(*x->grad(got), *x->grad(expected))) << name(activation) << " " << way;
    }
}

TEST(MatmulEpilogue, SaysWhatItRefuses) {
  const auto refused = [](Dtype dtype, const Attributes& attributes, const Shape& residual) {
    const auto p = parse_problem(
        all_ops(), "matmul", attributes,
        {{"a", {dtype, {2, 3}}}, {"b", {dtype, {3, 5}}}, {"residual", {Dtype::f32, residual}}});
    return p ? std::string() : p.error().message;
  };
  EXPECT_EQ(refused(Dtype::f32, {}, {2, 5}), "");
  EXPECT_EQ(refused(Dtype::f64, {}, {2, 5}), "matmul: the residual is f32, must be f64");
  EXPECT_EQ(refused(Dtype::f32, {{"activation", "tanh"}}, {2, 5}),
            "matmul: activation is tanh, must be none, relu, gelu or silu");
  MatmulProblem bytes{Dtype::s8, {}, 1, 1, 1, ProductMath::exact};
  bytes.activation = Activation::relu;
  ASSERT_FALSE(bytes.check());
  EXPECT_EQ(bytes.check().error().message, "matmul: relu is computed of floats alone, a is s8");
  const Inputs in(Dtype::f32, {}, 3, 4, 5, ProductMath::chain);
  EXPECT_THROW((void)matmul(in.a, in.b, std::nullopt, in.bias), Exception);
}

}  // namespace
}  // namespace planck
