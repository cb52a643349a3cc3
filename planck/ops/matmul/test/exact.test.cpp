// The exact kernels against planck/math/products/exact_product.h, bit for bit: every kernel that
// this machine runs, on the instruction set in force (--cpu_target).
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "planck/math/products/exact_product.h"
#include "planck/ops/matmul/cpu/kernels.h"
#include "planck/ops/matmul/test/placed_product.test.h"

namespace planck {
namespace {

struct ExactKernel {
  const char* name;
  std::string (*refusal)(const MatmulProblem&);
  ProductKernel run;
  ProductWorkspace workspace;
};
const ExactKernel kKernels[] = {
    {"amx", matmul_exact_amx_refusal, matmul_exact_amx, matmul_exact_amx_workspace},
    {"vnni", matmul_exact_vnni_refusal, matmul_exact_vnni, matmul_exact_vnni_workspace},
    {"f64", [](const MatmulProblem&) { return std::string(); }, matmul_exact_f64,
     matmul_exact_f64_workspace},
};

// Numbers around 1; of all exponents; subnormal results; the largest integers; NaN and infinities.
enum class Values { ordinary, wide, tiny, largest, hostile };

float draw(std::mt19937_64& random, Values values) {
  const std::uint64_t r = random(), pick = r >> 40 & 0xffff;
  const auto with = [&](std::uint64_t exponent) {
    return math::from_bits(
        static_cast<std::uint32_t>((r & 0x807fffffu) | (exponent << 23 & 0x7f800000u)));
  };
  switch (values) {
    case Values::ordinary:
      return pick % 16 == 0 ? 0.0f : with(120 + pick % 8);
    case Values::wide:
      return with(pick % 255);
    case Values::tiny:
      return with(pick % 64 < 63 ? 50 + pick % 8 : 0);
    case Values::largest:
      return r >> 63 != 0 ? -0x1.fffffep0f : 0x1.fffffep0f;
    default:
      return pick % 301 == 0   ? math::from_bits(0xffc00123u)
             : pick % 211 == 0 ? (r >> 63 != 0 ? -1.0f : 1.0f) * math::infinity_of(0.0f)
             : pick % 7 == 0   ? 0.0f
                               : with(125 + pick % 4);
  }
}

int exponent_of(const float* row, std::int64_t step, std::int64_t k) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < k; ++i)
    largest = std::max(largest, math::exact::magnitude_of(row[i * step]));
  return math::exact::exponent_of(largest);
}

void hold(const ExactKernel& kernel, const ProductSizes& e, Placing how, Values values,
          int threads) {
  std::mt19937_64 random(static_cast<std::uint64_t>(e.m * 131 + e.n * 17 + e.k));
  PlacedProduct<float, float> p(Dtype::f32, e, how, [&] { return draw(random, values); });
  p.run(kernel.run, kernel.workspace, threads);
  std::vector<int> rows, columns;  // their exponents
  for (std::int64_t t = 0; t < p.batches && e.k > 0; ++t) {
    for (std::int64_t i = 0; i < e.m; ++i)
      rows.push_back(exponent_of(p.a.pointer(t, i, 0), p.a.column(), e.k));
    for (std::int64_t j = 0; j < e.n; ++j)
      columns.push_back(exponent_of(p.b.pointer(t, 0, j), p.b.row(), e.k));
  }
  p.expect(
      [&](std::int64_t t, std::int64_t i, std::int64_t j) {
        if (e.k == 0) return 0.0f;
        return math::exact::product(
            p.a.pointer(t, i, 0), p.a.column(), rows[static_cast<std::size_t>(t * e.m + i)],
            p.b.pointer(t, 0, j), p.b.row(), columns[static_cast<std::size_t>(t * e.n + j)], e.k);
      },
      std::string(kernel.name) + " placing " + std::to_string(static_cast<int>(how)) + " values " +
          std::to_string(static_cast<int>(values)));
}

class ExactMatmul : public testing::TestWithParam<int> {
 protected:
  const ExactKernel& kernel() const { return kKernels[GetParam()]; }
  void SetUp() override {
    if (const std::string why = kernel().refusal({}); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(ExactMatmul, IsTheDefinition) {
  for (const ProductSizes& e :
       {ProductSizes{0, 1, 1, 1}, ProductSizes{0, 3, 5, 0}, ProductSizes{0, 2, 33, 15},
        ProductSizes{0, 33, 2, 65}, ProductSizes{3, 5, 7, 40}, ProductSizes{0, 50, 140, 31}})
    for (const Placing how : kPlacings)
      for (const Values values :
           {Values::ordinary, Values::wide, Values::tiny, Values::largest, Values::hostile})
        hold(kernel(), e, how, values, 2);
}

// Sums that wait between steps of k, more than one task, batches that are rows.
TEST_P(ExactMatmul, InStepsAndTasks) {
  hold(kernel(), {0, 61, 131, 1530}, Placing::dense, Values::ordinary, 2);
  hold(kernel(), {0, 20, 35, 2100}, Placing::transposed, Values::largest, 2);
  hold(kernel(), {2, 40, 20, 270}, Placing::transposed, Values::hostile, 2);
  hold(kernel(), {20, 9, 9, 33}, Placing::shared, Values::ordinary, 2);
  hold(kernel(), {20, 9, 9, 33}, Placing::dense, Values::wide, 3);
}

TEST_P(ExactMatmul, InParts) {
  hold(kernel(), {0, 2200, 3, 9}, Placing::dense, Values::ordinary, 2);
  hold(kernel(), {0, 40, 2100, 9}, Placing::dense, Values::ordinary, 2);
  hold(kernel(), {0, 2200, 40, 9}, Placing::dense, Values::ordinary, 2);
}

// Sums past 64 bits: 2^20 products of 2^44.
TEST_P(ExactMatmul, LongSums) {
  hold(kernel(), {0, 2, 3, 1 << 20}, Placing::dense, Values::largest, 2);
  const std::int64_t k = (1 << 20) + 7;
  PlacedProduct<float, float> p(Dtype::f32, {0, 1, 1, k}, Placing::dense,
                                [] { return 0x1.fffffep0f; });
  p.run(kernel().run, kernel().workspace, 2);
  EXPECT_EQ(p.c.at(0, 0, 0), static_cast<float>(4.0 * static_cast<double>(k)));  // each is 2 · 2
}

// By norms: closer than the chain where sums are long, and not where one element dwarfs others.
TEST_P(ExactMatmul, IsAsAccurateAsItSays) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  PlacedProduct<float, float> p(Dtype::f32, {0, 24, 24, 4096}, Placing::dense,
                                [&] { return normal(random); });
  const auto error = [&] {
    double sum = 0;
    for (std::int64_t i = 0; i < 24; ++i)
      for (std::int64_t j = 0; j < 24; ++j) {
        double exact = 0;
        for (std::int64_t k = 0; k < 4096; ++k)
          exact += static_cast<double>(p.a.at(0, i, k)) * static_cast<double>(p.b.at(0, k, j));
        sum += std::pow(static_cast<double>(p.c.at(0, i, j)) - exact, 2);
      }
    return sum;
  };
  p.run(kernel().run, kernel().workspace, 1);
  const double mine = error();
  p.run(matmul_cpu, matmul_cpu_workspace, 1);
  EXPECT_LT(mine, error());
  PlacedProduct<float, float> q(Dtype::f32, {0, 1, 1, 2}, Placing::dense, [] { return 1.0f; });
  q.a.at(0, 0, 0) = 1e8f;
  q.b.at(0, 0, 0) = 0;
  q.run(kernel().run, kernel().workspace, 1);
  EXPECT_EQ(q.c.at(0, 0, 0), 0.0f);
  q.run(matmul_cpu, matmul_cpu_workspace, 1);
  EXPECT_EQ(q.c.at(0, 0, 0), 1.0f);
}

TEST_P(ExactMatmul, ThreadsChangeNothing) {
  for (const int threads : {1, 3, 8})
    hold(kernel(), {0, 130, 100, 300}, Placing::dense, Values::hostile, threads);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ExactMatmul, testing::Range(0, 3),
                         [](const auto& each) { return kKernels[each.param].name; });

}  // namespace
}  // namespace planck
