// cpu:amx and cpu:vnni against sums in i64: whatever this machine runs.
#include <gtest/gtest.h>

#include <random>

#include "planck/loops/gemm/geometry.h"
#include "planck/ops/matmul/cpu/kernels.h"
#include "planck/ops/matmul/test/placed_product.test.h"

namespace planck {
namespace {

struct IntegerKernel {
  const char* name;
  std::string (*refusal)(const MatmulProblem&);
  ProductKernel run;
  ProductWorkspace workspace;
};
const IntegerKernel kKernels[] = {
    {"amx", matmul_amx_refusal, matmul_amx, matmul_amx_workspace},
    {"vnni", matmul_vnni_refusal, matmul_vnni, matmul_vnni_workspace}};

void hold(const IntegerKernel& kernel, const ProductSizes& e, Placing how, int threads,
          std::int8_t fill = 0) {
  std::mt19937 random(static_cast<unsigned>(e.m * 131 + e.n * 17 + e.k));
  PlacedProduct<std::int8_t, std::int32_t> p(
      Dtype::s8, e, how, [&] { return fill != 0 ? fill : static_cast<std::int8_t>(random()); });
  p.run(kernel.run, kernel.workspace, threads);
  p.expect(
      [&](std::int64_t t, std::int64_t i, std::int64_t j) {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < e.k; ++k)
          sum += std::int64_t{p.a.at(t, i, k)} * p.b.at(t, k, j);
        return static_cast<std::int32_t>(sum);
      },
      std::string(kernel.name) + " placing " + std::to_string(static_cast<int>(how)));
}

class IntegerMatmul : public testing::TestWithParam<int> {
 protected:
  const IntegerKernel& kernel() const { return kKernels[GetParam()]; }
  void SetUp() override {
    MatmulProblem p;
    p.element_dtype = Dtype::s8;
    if (const std::string why = kernel().refusal(p); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(IntegerMatmul, IsTheSum) {
  for (const Placing how : kPlacings)
    for (const ProductSizes& e :
         {ProductSizes{0, 1, 1, 1}, ProductSizes{0, 3, 5, 0}, ProductSizes{0, 2, 33, 15},
          ProductSizes{0, 33, 2, 65}, ProductSizes{3, 5, 7, 40}, ProductSizes{0, 113, 140, 131},
          ProductSizes{0, 17, 33, 4101}, ProductSizes{20, 9, 9, 33}})
      hold(kernel(), e, how, 2);
}

TEST_P(IntegerMatmul, InPartsOnAnyNumberOfThreads) {
  for (const int threads : {1, 3, 8}) {
    hold(kernel(), {0, 2200, 40, 20}, Placing::dense, threads);
    hold(kernel(), {0, 40, 2200, 20}, Placing::transposed, threads);
  }
}

TEST_P(IntegerMatmul, ReachesTheEndsOfItsRange) {
  hold(kernel(), {0, 2, 2, gemm::kMostIntegerProducts}, Placing::dense, 2, -128);
  hold(kernel(), {0, 2, 2, gemm::kMostIntegerProducts}, Placing::dense, 2, 127);
}

TEST_P(IntegerMatmul, RefusesFloats) {
  EXPECT_EQ(kernel().refusal({}), "multiplies s8 alone, a is f32");
}

INSTANTIATE_TEST_SUITE_P(Kernels, IntegerMatmul, testing::Range(0, 2),
                         [](const auto& chosen) { return kKernels[chosen.param].name; });

}  // namespace
}  // namespace planck
