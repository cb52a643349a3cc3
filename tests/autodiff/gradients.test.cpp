// Gradients of every elementwise op, reduction, shape op and matrix product. Compiled once for each
// backend.
#include "tests/autodiff/gradcheck.h"
#include "tests/autodiff/tested_backend.h"

namespace planck::test {

namespace {

const Input kPositive{{2, 3}, 0.3, 3}, kVector{{3}}, kColumn{{2, 1}}, kPositiveRow{{3}, 0.3, 3};

TEST_F(Gradients, OfUnaryOps) {
#define PLANCK_UNARY_GRADIENT(order, body, ...) CHECK1(Order::order, body, __VA_ARGS__);
#include "planck/ops/elementwise/test/gradients.list.h"
}

TEST_F(Gradients, OfBinaryOpsWithBroadcasting) {
#define PLANCK_BINARY_GRADIENT(order, body, ...) CHECK2(Order::order, body, __VA_ARGS__);
#include "planck/ops/elementwise/test/gradients.list.h"
}

TEST_F(Gradients, OfReductions) {
  const Input box{{2, 3, 2}};
  CHECK1(kSecond, sum(square(x)), box);
  CHECK1(kSecond, sum(exp(x), 1), box);
  CHECK1(kSecond, sum(square(x), Axes({0, 2}), true), box);
  CHECK1(kSecond, mean(exp(x), -1), box);
  CHECK1(kSecond, prod(x, 1), box);
  CHECK1(kSecond, max(x, 1), box);
  CHECK1(kSecond, min(square(x), Axes({0, 1})), box);
  CHECK1(kSecond, var(x, 1), box);
  CHECK1(kSecond, var(x, Axes({0, 2}), 0, true), box);
  CHECK1(kSecond, logsumexp(x, 2), box);
  CHECK1(kSecond, cumsum(square(x), 1), box);
  CHECK1(kSecond, cumsum(square(x), 0, true), box);
}

// Groups with none, one, two and three zeros, zeros alone among them; of even, odd and single
// length.
TEST_F(Gradients, OfProductsWithZeros) {
  const Input square_box{
      {4, 4}, 0, 0, {2, -1, 0.5, 3, 0, 1.5, -2, 3, 0, 1.5, 0, -2, 0, 3, 0, -0.0}};
  CHECK1(kSecond, prod(x, 1), square_box);
  CHECK1(kSecond, prod(x, 0), square_box);
  CHECK1(kSecond, prod(x), square_box);
  CHECK1(kSecond, prod(exp(x) - 1, 1, true) * x, square_box);
  const Input odd{{3, 5}, 0, 0, {0, 2, 0, -1, 3, 1, 0, 2, 2, 0.5, 0, 0, 0, 0, 0}};
  CHECK1(kSecond, prod(x, -1), odd);
  CHECK1(kSecond, prod(x, 0), odd);
  const Input box{{2, 3, 2}, 0, 0, {0, 1, 2, 0, -1, 3, 0.5, 2, 1, -2, 0, 1}};
  CHECK1(kSecond, prod(x, Axes({0, 2})), box);
  CHECK1(kSecond, prod(x, Axes({0, 1}), true), box);
  CHECK1(kSecond, prod(x, 1), (Input{{3, 1}, 0, 0, {0, 2, 0}}));
}

// By hand: of a b c the gradient is (bc, ac, ab), and of its sum (b + c, a + c, a + b), whatever is
// zero.
TEST_F(Gradients, OfTheGradientOfAProductWithTwoZeros) {
  using AA = Autodiff<A>;
  const auto inner = Tensor<A>::template from<double>({0, 5, 0}, {3}).require_grad();
  const auto x = Tensor<AA>(AA::require_grad(AA::from_inner(inner.primitive())));
  const auto first = *x.grad(prod(x).backward());
  EXPECT_EQ(first.inner().template to_vector<double>(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(inner.grad(sum(first).backward())->template to_vector<double>(),
            (std::vector<double>{5, 0, 5}));
}

// The product of the first two exceeds f16, no gradient does.
TEST_F(Gradients, OfProductsOf16BitsAreRoundedOnce) {
  const auto wide = Tensor<A>::template from<double>({300, 300, 0x1p-10, 0.5}, {4});
  const auto x = to_float(wide, Dtype::f16).require_grad();
  const auto dx = *x.grad(prod(x).backward());
  EXPECT_EQ(dx.dtype(), Dtype::f16);
  const auto got = to_float(dx, Dtype::f64).template to_vector<double>();
  const double want[] = {300 * 0x1p-11, 300 * 0x1p-11, 45000, 90000 * 0x1p-10};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], want[i], want[i] * 0x1p-11) << i;
}

TEST_F(Gradients, OfShapeOps) {
  const Input box{{2, 3, 2}};
  CHECK1(kSecond, reshape(square(x), {3, -1}), box);
  CHECK1(kSecond, permute(square(x), {2, 0, 1}), box);
  CHECK1(kSecond, square(transpose(x, 0, 2)), box);
  CHECK1(kSecond, square(expand(x, {4, 2, 3})), kMatrix);
  CHECK1(kSecond, slice(square(x), 1, 1, 3), box);
  CHECK1(kSecond, slice(square(x), 1, -1, INT64_MAX, -2), box);
  CHECK1(kSecond, square(flip(x, {0, -1})), box);
  CHECK1(kSecond, select(square(x), 1, -2), box);
  CHECK1(kSecond, pad(square(x), {1, 0, -1}, {0, 2, 1}, 3.0), box);
  CHECK1(kSecond, square(repeat(x, {2, 1, 3})), box);
  CHECK1(kSecond, square(unsqueeze(x, 1)), kMatrix);
  CHECK2(kSecond, square(cat(std::vector{x, y, x}, 1)), kMatrix, (Input{{2, 2}}));
  CHECK2(kSecond, square(stack(std::vector{x, y}, -1)), kMatrix, kMatrix);
  CHECK2(kSecond, square(slice_assign(x, y, 1, 0, 3, 2)), kMatrix, (Input{{2, 2}}));
  // All pieces, in another order, and one alone: others have a gradient of zeros.
  CHECK1(kSecond, square(split(x, {1, 2}, 1)[1]) * split(x, {2, 1}, 1)[0], box);
  CHECK1(kSecond, square(std::get<1>(split(square(x), {1, 1}, -1))), box);
}

TEST_F(Gradients, OfMatrixProducts) {
  CHECK2(kSecond, matmul(x, y), kMatrix, (Input{{3, 4}}));
  CHECK2(kSecond, matmul(x, y), (Input{{2, 2, 3}}), (Input{{3, 2}}));
  CHECK2(kSecond, matmul(x, y), (Input{{2, 1, 2, 3}}), (Input{{3, 3, 1}}));
  CHECK2(kSecond, tanh(matmul(transpose(x), y)), kMatrix, (Input{{2, 2}}));
  CHECK2(kFirst, matmul(x, y), (Input{{2, 0}}), (Input{{0, 3}}));
  // A bias, once as a leaf and once made of what is multiplied.
  CHECK3(kSecond, matmul(x, y, z), kMatrix, (Input{{3, 4}}), (Input{{4}}));
  CHECK3(kSecond, tanh(matmul(x, transpose(y), z)), (Input{{2, 2, 3}}), (Input{{4, 3}}),
         (Input{{4}}));
  CHECK3(kSecond, matmul(x, y, z), (Input{{2, 1, 2, 3}}), (Input{{3, 3, 1}}), (Input{{1}}));
  CHECK2(kSecond, matmul(x, y, select(square(y), 0, 1)), kMatrix, (Input{{3, 4}}));
  CHECK3(kFirst, matmul(x, y, z), (Input{{2, 0}}), (Input{{0, 3}}), (Input{{3}}));
}

TEST_F(Gradients, WhereTiesAndZerosAre) {
  const auto gradient = [](const std::vector<double>& values, auto f) {
    const auto x =
        Tensor<A>::from(std::span<const double>(values), {static_cast<std::int64_t>(values.size())})
            .require_grad();
    return x.grad(sum(f(x)).backward())->template to_vector<double>();
  };
  using V = std::vector<double>;
  EXPECT_EQ(gradient({-1, 0, 2}, [](const auto& x) { return abs(x); }), V({-1, 0, 1}));
  EXPECT_EQ(gradient({-1, 0, 2}, [](const auto& x) { return relu(x); }), V({0, 0, 1}));
  EXPECT_EQ(gradient({-1, 0, 2}, [](const auto& x) { return clamp(x, -1, 1); }), V({1, 1, 0}));
  EXPECT_EQ(gradient({3, 1, 3, 3}, [](const auto& x) { return max(x) * 6; }), V({2, 0, 2, 2}));
  EXPECT_EQ(gradient({1, 5}, [](const auto& x) { return maximum(x, full_like(x, 1)); }),
            V({0.5, 1}));
  EXPECT_EQ(gradient({2, 3, 4}, [](const auto& x) { return prod(x); }), V({12, 8, 6}));
  EXPECT_EQ(gradient({2, 0, 4}, [](const auto& x) { return prod(x); }), V({0, 8, 0}));
  EXPECT_EQ(gradient({0, 0, 4}, [](const auto& x) { return prod(x); }), V({0, 0, 0}));
  EXPECT_EQ(gradient({0, 2}, [](const auto& x) { return pow(x, 2); }), V({0, 4}));
}

TEST_F(Gradients, OfNothing) {
  const auto x = Tensor<A>::from(std::span<const double>(), {0, 3}).require_grad();
  const auto y = sum(exp(x) * 2) + sum(x, 1).numel();
  const auto grads = y.backward();
  EXPECT_EQ(x.grad(grads)->shape(), (Shape{0, 3}));
}

}  // namespace

}  // namespace planck::test
