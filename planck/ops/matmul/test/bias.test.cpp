// What a product with a bias refuses, and who adds none. Its bits: matmul.test.cpp and
// epilogue.test.cpp.
#include <gtest/gtest.h>

#include "planck/ops/matmul/matmul.h"
#include "planck/ops/ops.h"
#include "planck/verify/run_plan.test.h"

namespace planck {
namespace {

TEST(MatmulBias, IsAddedToWhatWasRounded) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {7, 8, 9, 10, 11, 12}, bias = {0.5f, -64};
  std::vector<float> c(4);
  run<MatmulPlan<float>>(
      {.m = 2, .n = 2, .k = 3, .bias = true},
      {{a.data(), {2, 3}}, {b.data(), {3, 2}}, {c.data(), {2, 2}}, {bias.data(), {2}}});
  EXPECT_EQ(c, (std::vector<float>{58.5f, 0, 139.5f, 90}));
  // 1 + 2^-8 is no bf16: rounded first, it is 1, and 1 less 1 is 0.
  const bf16 x[] = {bf16(1.0f), bf16(0x1p-8f)}, ones[] = {bf16(1.0f), bf16(1.0f)};
  const bf16 less = bf16(-1.0f);
  bf16 y = bf16(7.0f);
  run<MatmulPlan<bf16>>({.m = 1, .n = 1, .k = 2, .bias = true},
                        {{x, {1, 2}}, {ones, {2, 1}}, {&y, {1, 1}}, {&less, {1}}});
  EXPECT_EQ(static_cast<float>(y), 0.0f);
}

TEST(MatmulBias, OfAnotherShapeOrDtypeIsRefused) {
  const MatmulProblem bytes{Dtype::s8, {}, 1, 1, 1, ProductMath::exact, true};
  ASSERT_FALSE(bytes.check());
  EXPECT_EQ(bytes.check().error().message, "matmul: a bias is added to floats alone, a is s8");
  const auto refused = [](Dtype dtype, const Shape& bias) {
    const auto p = parse_problem(
        all_ops(), "matmul", {},
        {{"a", {Dtype::f32, {2, 3}}}, {"b", {Dtype::f32, {3, 5}}}, {"bias", {dtype, bias}}});
    return p ? std::string() : p.error().message;
  };
  EXPECT_EQ(refused(Dtype::f32, {5}), "");
  EXPECT_EQ(refused(Dtype::f32, {3}), "matmul: the bias is f32 [3], must be f32 [5]");
  EXPECT_EQ(refused(Dtype::f32, {1, 5}), "matmul: the bias is f32 [1, 5], must be f32 [5]");
  EXPECT_EQ(refused(Dtype::f64, {5}), "matmul: the bias is f64 [5], must be f32 [5]");
}

TEST(MatmulBias, IsNotAddedByTheLibrary) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    MatmulProblem p{dtype, {}, 4, 4, 4};
    p.bias = true;
    std::size_t rows = 0;
    for (const auto& kernel : p.kernels()) {
      if (kernel.device != DeviceKind::cuda) continue;
      ++rows;
      EXPECT_EQ(kernel.reject(p), kernel.name == "cuda:cublaslt"
                                      ? "multiplies alone, and a bias, an activation or a residual "
                                        "follows"
                                      : "")
          << kernel.name;
    }
    EXPECT_GE(rows, 2u);
  }
}

}  // namespace
}  // namespace planck
