// Products against a plain loop: what their math says, bit for bit, and every kernel's error
// against sums in more precision.
#include "planck/ops/matmul/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "planck/core/allocator.h"
#include "planck/loops/gemm/geometry.h"
#include "planck/ops/matmul/test/reference.test.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/run_plan.test.h"
#include "planck/verify/tensors/fill.h"
#include "planck/verify/tensors/placed_run.h"

namespace planck {
namespace {

// What a kernel makes of a case.
HostTensor run_case(const Case& c, const NamedTensors& inputs, std::string_view kernel,
                    int threads) {
  auto problem = verify::parse_problem(all_ops(), c);
  EXPECT_TRUE(problem) << problem.error().message;
  PlanPreference preference;
  preference.kernel = kernel;
  const Stream stream = Stream::cpu(threads);
  const auto plan = (*problem)->select(stream, preference);
  EXPECT_TRUE(plan) << plan.error().message;
  verify::Subject subject{&c, problem->get(), plan->get(), (*problem)->specs()};
  verify::Outcome outcome = execute(subject, stream, inputs, {.what = "", .layouts = {}});
  EXPECT_EQ(outcome.fault, "") << c.id();
  return std::move(outcome.outputs[matmul_operand::c]);
}

TEST(Matmul, EveryKernelGivesTheBitsThatItsMathSays) {
  std::set<std::string_view> seen;
  for (const Case& c : verify::matmul_cases(verify::ListSize::usual)) {
    const NamedTensors inputs = c.make_inputs();
    const MatmulProblem p = problem_of(c, inputs);
    const HostTensor expected = expected_of(inputs, p);
    for (const Kernel<MatmulProblem>& kernel : p.kernels()) {
      if (kernel.device != DeviceKind::cpu || !kernel.reject(p).empty()) continue;
      if (kernel.guarantee(p).reproducibility != Reproducibility::cross_device) continue;
      seen.insert(kernel.name);
      const HostTensor got = run_case(c, inputs, kernel.name, 2);
      ASSERT_EQ(verify::bit_difference(expected, got), "") << c.id() << " " << kernel.name;
    }
  }
  for (const std::string_view kernel : {"cpu:fma_chain", "cpu:integer_lanes", "cpu:exact_f64"})
    EXPECT_TRUE(seen.contains(kernel)) << kernel;
}

// Row i of a product is the same whatever rows stand beside it.
TEST(Matmul, RowsDoNotDependOnTheirNumber) {
  constexpr std::int64_t kM = 70, kN = 90, kK = 200;
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64, Dtype::s8})
    for (const ProductMath math : kAllProductMath) {
      if (!serves(math, dtype)) continue;
      const MatmulProblem whole{dtype, {}, kM, kN, kK, math};
      const auto run = [&](MatmulProblem p, std::int64_t first) {
        const auto plan = Selection<MatmulProblem>::select(Stream::cpu(2), p);
        EXPECT_TRUE(plan && plan->precision_guarantee().batch_invariant);
        HostTensor a(dtype, {kM, kK}), b(dtype, {kK, kN}), c(p.output_dtype(), {p.m, kN});
        const auto fill = dtype == Dtype::s8 ? verify::Fill::integers : verify::Fill::normal;
        verify::fill(a, fill, 1, 0), verify::fill(b, fill, 2, 0);
        const auto workspace = allocate(Stream::cpu(2), plan->workspace_size());
        View rows{a.bytes.data() + bytes_for(dtype, first * kK), dtype, {p.m, kK}, {kK, 1}, true};
        const auto ok = plan->run(Stream::cpu(2), {workspace->data(), workspace->bytes()},
                                  {rows, b.view(), c.view()});
        EXPECT_TRUE(ok) << ok.error().message;
        return c;
      };
      const HostTensor all = run(whole, 0);
      for (const auto& [first, count] :
           {std::pair<std::int64_t, std::int64_t>{0, 1}, {3, 5}, {20, 50}}) {
        MatmulProblem part = whole;
        part.m = count;
        const HostTensor some = run(part, first);
        EXPECT_TRUE(std::equal(some.bytes.begin(), some.bytes.end(),
                               all.bytes.begin() + static_cast<std::ptrdiff_t>(bytes_for(
                                                       whole.output_dtype(), first * kN))))
            << name(dtype) << " " << name(math) << " " << first;
      }
    }
}

// Relative to the sum of magnitudes, or by norms, in units in the last place of the result.
TEST(Matmul, EveryKernelKeepsItsBound) {
  std::size_t kernels = 0;
  for (const Case& c : verify::matmul_cases(verify::ListSize::usual)) {
    if (c.inputs[0].fill != verify::Fill::normal) continue;
    const NamedTensors inputs = c.make_inputs();
    const MatmulProblem p = problem_of(c, inputs);
    const int digits = p.element_dtype == Dtype::f64   ? 53
                       : p.element_dtype == Dtype::f32 ? 24
                       : p.element_dtype == Dtype::f16 ? 11
                                                       : 8;
    for (const Kernel<MatmulProblem>& kernel : p.kernels()) {
      if (kernel.device != DeviceKind::cpu || !kernel.reject(p).empty()) continue;
      ++kernels;
      const HostTensor got = run_case(c, inputs, kernel.name, 2);
      const double max_ulp = kernel.guarantee(p).max_ulp;
      const bool by_norms = kernel.guarantee(p).by_norms;
      double worst = 0;
      for_each_sum(inputs, [&](std::int64_t at, std::int64_t count, auto a, auto b) {
        long double sum = 0, magnitude = 0, row = 0, column = 0;
        for (std::int64_t k = 0; k < count; ++k) {
          const long double product = static_cast<long double>(a(k)) * b(k);
          sum += product;
          magnitude += std::abs(product);
          row = std::max(row, std::abs(static_cast<long double>(a(k))));
          column = std::max(column, std::abs(static_cast<long double>(b(k))));
        }
        if (by_norms) magnitude = static_cast<long double>(count) * row * column;
        if (p.bias) {
          const long double bias = inputs.find("bias")->second.number(at % p.n);
          sum += bias;
          magnitude += std::abs(bias);
        }
        if (p.activation == Activation::relu) sum = std::max(sum, 0.0L);
        if (p.activation == Activation::gelu) sum *= std::erfc(-sum / std::sqrt(2.0L)) / 2;
        if (p.activation == Activation::silu) sum /= 1 + std::exp(-sum);
        if (p.residual) {
          const long double residual = inputs.find("residual")->second.number(at);
          sum += residual;
          magnitude += std::abs(residual);
        }
        if (magnitude < 1e-4) return;  // sums of zeros; subnormal 16-bit results
        const long double apart = std::abs(static_cast<long double>(got.number(at)) - sum);
        worst = std::max(worst, static_cast<double>(std::ldexp(apart / magnitude, digits - 1)));
      });
      EXPECT_LE(worst, max_ulp) << c.id() << " " << kernel.name;
    }
  }
  EXPECT_GT(kernels, 50u);
}

TEST(Matmul, AWorkedExample) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {7, 8, 9, 10, 11, 12};
  std::vector<float> c(4);
  run<MatmulPlan<float>>({2, 2, 3}, {{a.data(), {2, 3}}, {b.data(), {3, 2}}, {c.data(), {2, 2}}});
  EXPECT_EQ(c, (std::vector<float>{58, 64, 139, 154}));
}

// 1 + 2^-24 is lost to rounding before 2^-24 more could help: the order is the one promised.
TEST(Matmul, AddsInAscendingOrder) {
  const float tiny = 0x1p-24f;
  const std::vector<float> a = {1, tiny, tiny}, ones = {1, 1, 1}, back = {tiny, tiny, 1};
  float c = 0;
  run<MatmulPlan<float>>({1, 1, 3}, {{a.data(), {1, 3}}, {ones.data(), {3, 1}}, {&c, {1, 1}}});
  EXPECT_EQ(c, 1.0f);
  run<MatmulPlan<float>>({1, 1, 3}, {{back.data(), {1, 3}}, {ones.data(), {3, 1}}, {&c, {1, 1}}});
  EXPECT_EQ(c, 1.0f + 0x1p-23f);
}

TEST(Matmul, BroadcastsByStrideZero) {
  constexpr std::int64_t kBatch = 3, kM = 5, kN = 6, kK = 4;
  std::vector<double> a(kBatch * kM * kK), b(kK * kN), c(kBatch * kM * kN), one(kM * kN);
  std::iota(a.begin(), a.end(), -20.0);
  std::iota(b.begin(), b.end(), 3.0);
  run<MatmulPlan<double>>({kM, kN, kK, {kBatch}}, {{a.data(), {kBatch, kM, kK}},
                                                   {b.data(), {kBatch, kK, kN}, {0, kN, 1}},
                                                   {c.data(), {kBatch, kM, kN}}});
  for (std::int64_t t = 0; t < kBatch; ++t) {
    run<MatmulPlan<double>>(
        {kM, kN, kK},
        {{a.data() + t * kM * kK, {kM, kK}}, {b.data(), {kK, kN}}, {one.data(), {kM, kN}}});
    EXPECT_TRUE(std::equal(one.begin(), one.end(), c.begin() + t * kM * kN)) << t;
  }
  // One A for all batches, and batches in reverse.
  run<MatmulPlan<double>>({kM, kN, kK, {2}},
                          {{a.data(), {2, kM, kK}, {0, kK, 1}},
                           {b.data() + kK * kN - 1, {2, kK, kN}, {0, -kN, -1}},
                           {c.data() + kM * kN, {2, kM, kN}, {-kM * kN, kN, 1}}});
  EXPECT_TRUE(std::equal(c.begin(), c.begin() + kM * kN, c.begin() + kM * kN));
}

TEST(Matmul, IntegersReachTheEndsOfTheirRange) {
  const auto k = static_cast<std::size_t>(gemm::kMostIntegerProducts);
  const std::vector<std::int8_t> low(k, -128), high(k, 127);
  std::int32_t c = 0;
  const Shape row = {1, gemm::kMostIntegerProducts}, column = {gemm::kMostIntegerProducts, 1};
  run<MatmulPlan<std::int8_t>>({1, 1, gemm::kMostIntegerProducts},
                               {{low.data(), row}, {low.data(), column}, {&c, {1, 1}}});
  EXPECT_EQ(c, 16384 * std::int32_t{131071});
  run<MatmulPlan<std::int8_t>>({1, 1, gemm::kMostIntegerProducts},
                               {{low.data(), row}, {high.data(), column}, {&c, {1, 1}}});
  EXPECT_EQ(c, -128 * 127 * std::int32_t{131071});
}

TEST(Matmul, RefusesWhatItCannotKeep) {
  const auto message = [](const MatmulProblem& p) {
    const auto ok = p.check();
    return ok ? std::string() : ok.error().message;
  };
  EXPECT_EQ(message({Dtype::s8, {}, 1, 1, gemm::kMostIntegerProducts}), "");
  EXPECT_EQ(message({Dtype::s8, {}, 1, 1, 131072}),
            "matmul: K is 131072, sums of s8 products fit in i32 up to 131071");
  EXPECT_EQ(message({Dtype::u8, {}, 1, 1, 1}),
            "matmul: element dtype is u8, must be f32, f64, f16, bf16 or s8");
  EXPECT_EQ(message({Dtype::f32, {1, 1, 1, 1, 1, 1, 1}, 1, 1, 1}),
            "matmul: there are 7 batch axes, at most 6 leave room for the matrices'");
  const auto refused = [](const Shape& a, const Shape& b, Dtype b_dtype = Dtype::f32) {
    const auto p =
        parse_problem(all_ops(), "matmul", {}, {{"a", {Dtype::f32, a}}, {"b", {b_dtype, b}}});
    return p ? std::string() : p.error().message;
  };
  EXPECT_EQ(refused({2, 3}, {4, 5}), "matmul: a has 3 columns, b 4 rows: must be the same");
  EXPECT_EQ(refused({3}, {3, 5}),
            "matmul: a has shape [3], b [3, 5]: both must have two axes at least");
  EXPECT_EQ(refused({2, 2, 3}, {3, 5}), "");  // batch axes broadcast
  EXPECT_EQ(refused({2, 2, 3}, {1, 3, 5}), "");
  EXPECT_EQ(refused({2, 2, 3}, {3, 3, 5}),
            "matmul: shapes [2] and [3] do not broadcast: 2 against 3");
  EXPECT_EQ(refused({2, 3}, {3, 5}, Dtype::f64), "matmul: a is f32, b is f64: must be the same");
}

// Whatever cuts the work: one, two and many threads.
TEST(Matmul, ThreadsChangeNothing) {
  const auto c = verify::matmul_example("matmul", {Dtype::bf16, std::nullopt}, {301, 270});
  const NamedTensors inputs = c->make_inputs();
  const HostTensor one = run_case(*c, inputs, "cpu:integer_lanes", 1);
  for (int threads : {2, 3, 8})
    EXPECT_EQ(verify::bit_difference(one, run_case(*c, inputs, "cpu:integer_lanes", threads)), "");
}

// Kernels that copy operands by a grid of blocks leave what it cannot count to others, by name.
TEST(Matmul, CopiesOfMoreThanAGridAreRefused) {
  const auto reason = [](Dtype dtype, ProductMath math, std::int64_t batches, std::int64_t k) {
    const MatmulProblem p{dtype, {batches}, 2, 2, k, math};
    return p.kernels().front().reject(p);
  };
  for (const auto& [dtype, math] : {std::pair(Dtype::f32, ProductMath::tensor_core),
                                    {Dtype::f32, ProductMath::exact},
                                    {Dtype::s8, ProductMath::exact}}) {
    EXPECT_EQ(reason(dtype, math, 65535, 64), "");
    EXPECT_EQ(reason(dtype, math, 65536, 64),
              "copies operands of up to 65535 batches, there are 65536");
  }
  EXPECT_EQ(reason(Dtype::s8, ProductMath::exact, 1, 8388481),
            "copies operands with K up to 8388480, K is 8388481");
  EXPECT_EQ(reason(Dtype::bf16, ProductMath::tensor_core, 65536, 64), "");
}

// More than 2^31 elements: the last rows are those of a small product.
TEST(Long, MatmulPast2To31Elements) {
  constexpr std::int64_t kM = (std::int64_t{1} << 25) + 77, kK = 65, kN = 3, kTail = 100;
  std::vector<std::int8_t> a(static_cast<std::size_t>(kM * kK)), b(kK * kN);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<std::int8_t>(i * 0x9e3779b97f4a7c15u >> 56);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::int8_t>(i * 37);
  std::vector<std::int32_t> c(static_cast<std::size_t>(kM * kN)), tail(kTail * kN);
  run<MatmulPlan<std::int8_t>>({kM, kN, kK},
                               {{a.data(), {kM, kK}}, {b.data(), {kK, kN}}, {c.data(), {kM, kN}}});
  run<MatmulPlan<std::int8_t>>({kTail, kN, kK}, {{a.data() + (kM - kTail) * kK, {kTail, kK}},
                                                 {b.data(), {kK, kN}},
                                                 {tail.data(), {kTail, kN}}});
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), c.end() - kTail * kN));
}

}  // namespace
}  // namespace planck
