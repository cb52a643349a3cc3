// Convolutions against plain loops (reference.test.h): the promised order bit for bit, and the
// error against sums in more precision.
#include "planck/ops/conv/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "planck/ops/conv/test/reference.test.h"
#include "planck/ops/ops.h"
#include "planck/planck.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/run_plan.test.h"
#include "planck/verify/tensors/placed_run.h"

namespace planck {
namespace {

using verify::Case;
using verify::HostTensor;
using verify::NamedTensors;

HostTensor run_case(const Case& c, const NamedTensors& inputs, int threads,
                    std::optional<std::string_view> kernel = {}) {
  auto problem = verify::parse_problem(all_ops(), c);
  EXPECT_TRUE(problem) << problem.error().message;
  const Stream stream = Stream::cpu(threads);
  const auto plan = (*problem)->select(stream, PlanPreference{.kernel = kernel});
  EXPECT_TRUE(plan) << plan.error().message;
  verify::Subject subject{&c, problem->get(), plan->get(), (*problem)->specs()};
  verify::Outcome outcome = execute(subject, stream, inputs, {.what = "", .layouts = {}});
  EXPECT_EQ(outcome.fault, "") << c.id();
  return std::move(outcome.outputs[conv_operand::out]);
}

// Of every kernel.
TEST(Conv, IsThePromisedSum) {
  std::set<std::string_view> seen;
  for (const Case& c : verify::conv_cases(verify::ListSize::usual)) {
    const NamedTensors inputs = c.make_inputs();
    const ConvProblem p = problem_of(c);
    const HostTensor expected = ConvReference(p, inputs).expected();
    for (const Kernel<ConvProblem>& kernel : p.kernels()) {
      if (kernel.device != DeviceKind::cpu || !kernel.reject(p).empty()) continue;
      seen.insert(kernel.name);
      ASSERT_EQ(verify::bit_difference(expected, run_case(c, inputs, 2, kernel.name)), "")
          << c.id() << " " << kernel.name;
    }
  }
  for (const std::string_view kernel : {"cpu:patches", "cpu:integer_lanes", "cpu:exact_f64"})
    EXPECT_TRUE(seen.contains(kernel)) << kernel;
}

// Relative to the sum of magnitudes, or to the number of terms times what shares their exponents,
// in units in the last place of the result.
TEST(Conv, KeepsItsBound) {
  std::map<ProductMath, std::size_t> tried;
  for (const Case& c : verify::conv_cases(verify::ListSize::usual)) {
    if (c.inputs[0].fill != verify::Fill::normal) continue;
    const NamedTensors inputs = c.make_inputs();
    const ConvProblem p = problem_of(c);
    const ConvReference r(p, inputs);
    const HostTensor got = run_case(c, inputs, 1);
    const int digits = p.element_dtype == Dtype::f64   ? 53
                       : p.element_dtype == Dtype::f32 ? 24
                       : p.element_dtype == Dtype::f16 ? 11
                                                       : 8;
    double worst = 0;
    for (std::int64_t i = 0; i < got.count(); ++i) {
      long double sum = 0, magnitude = 0, count = 0;
      for (const auto& chunk : r.terms(i))
        for (const Term& t : chunk) {
          const long double product = static_cast<long double>(t.a) * t.b;
          sum += product;
          magnitude += std::abs(product);
          ++count;
        }
      if (p.math == ProductMath::exact) magnitude = count * r.largest(i)[0] * r.largest(i)[1];
      if (magnitude < 1e-4) continue;
      const long double apart = std::abs(static_cast<long double>(got.number(i)) - sum);
      worst = std::max(worst, static_cast<double>(std::ldexp(apart / magnitude, digits - 1)));
      ++tried[p.math];
    }
    for (const auto& kernel : p.kernels())
      EXPECT_LE(worst, kernel.guarantee(p).max_ulp) << c.id() << " " << kernel.name;
  }
  for (const ProductMath math : kAllProductMath) EXPECT_GT(tried[math], 10000u) << name(math);
}

TEST(Conv, ThreadsChangeNothing) {
  for (std::string_view op : {"conv2d", "conv2d_input", "conv2d_weight"})
    for (const ProductMath math : kAllProductMath) {
      auto c = *verify::conv_example(op, {Dtype::f32, std::nullopt}, {7, 20, 31, 33});
      c.attributes["math"] = name(math);
      const NamedTensors inputs = c.make_inputs();
      const HostTensor one = run_case(c, inputs, 1);
      for (int threads : {2, 3, 8})
        EXPECT_EQ(verify::bit_difference(one, run_case(c, inputs, threads)), "") << c.id();
    }
}

// The promise of conv2d, in the library's own words: pad, unfold, matmul.
TEST(Conv, HasTheBitsOfPatchesTimesWeights) {
  const auto filled = [](const Shape& shape, std::uint64_t seed) {
    HostTensor t(Dtype::f32, shape);
    verify::fill(t, verify::Fill::normal, seed, 0);
    std::vector<float> v;
    for (std::int64_t i = 0; i < t.count(); ++i) v.push_back(static_cast<float>(t.number(i)));
    return Tensor<Cpu>::from(std::span<const float>(v), shape);
  };
  const auto x = filled({3, 8, 11, 9}, 1), w = filled({12, 4, 3, 2}, 2);
  for (const Conv2dOptions& o :
       {Conv2dOptions{.padding = {1, 1}, .groups = 2},
        Conv2dOptions{.stride = {2, 3}, .padding = {2, 1}, .dilation = {1, 2}, .groups = 2}})
    EXPECT_EQ(conv2d(x, w, o).to_vector<float>(), Conv2d{o}.decompose(x, w).to_vector<float>());
}

// What is computed of image n is the same however many images there are.
TEST(Conv, ImagesDoNotDependOnTheirNumber) {
  constexpr std::int64_t kImages = 5;
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64, Dtype::s8})
    for (const ProductMath math : kAllProductMath)
      for (const ConvKind kind : {ConvKind::conv2d, ConvKind::conv2d_input}) {
        ConvProblem whole{kind,
                          dtype,
                          {kImages, 34, 9, 8},
                          {20, 17, 3, 3},
                          {.stride = {1, 2}, .padding = {1, 1}, .groups = 2},
                          math};
        if (!whole.check()) continue;
        const auto run = [&](std::int64_t first, std::int64_t images) {
          ConvProblem p = whole;
          p.x[0] = images;
          const auto plan = Selection<ConvProblem>::select(Stream::cpu(2), p);
          EXPECT_TRUE(plan && plan->precision_guarantee().batch_invariant);
          const auto specs = whole.specs();
          HostTensor a(dtype, specs[0].shape), b(dtype, specs[1].shape),
              out(p.specs()[2].dtype, p.specs()[2].shape);
          const auto fill = dtype == Dtype::s8 ? verify::Fill::integers : verify::Fill::normal;
          verify::fill(a, fill, 1, 0), verify::fill(b, fill, 2, 0);
          const std::int64_t image = numel(specs[0].shape) / kImages;
          View part = a.view();
          part.shape[0] = images;
          part.data = a.bytes.data() + bytes_for(dtype, first * image);
          const auto workspace = allocate(Stream::cpu(2), plan->workspace_size());
          const auto ok = plan->run(Stream::cpu(2), {workspace->data(), workspace->bytes()},
                                    {part, b.view(), out.view()});
          EXPECT_TRUE(ok) << ok.error().message;
          return out;
        };
        const HostTensor all = run(0, kImages);
        for (const auto& [first, count] :
             {std::pair<std::int64_t, std::int64_t>{0, 1}, {1, 3}, {4, 1}}) {
          const HostTensor some = run(first, count);
          EXPECT_TRUE(std::equal(
              some.bytes.begin(), some.bytes.end(),
              all.bytes.begin() + static_cast<std::ptrdiff_t>(all.bytes.size()) / kImages * first))
              << whole.info().name << " " << name(dtype) << " " << name(math) << " " << first;
        }
      }
}

// Layers and their gradients follow the device of their tensors; an op may say otherwise.
TEST(Conv, FollowsTheDevice) {
  using A = Autodiff<Cpu>;
  std::vector<float> numbers(2 * 9 * 7 * 7);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = std::sin(static_cast<float>(i)) * (i % 13 == 0 ? 40.0f : 1.0f);
  const auto gradients = [&](const Cpu::Device& device, std::optional<ProductMath> math) {
    const auto x = Tensor<A>::from(std::span<const float>(numbers), {2, 9, 7, 7}, device);
    const auto w =
        Tensor<A>::from(std::span<const float>(numbers).first(4 * 9 * 9), {4, 9, 3, 3}, device);
    const auto a = x.require_grad(), b = w.require_grad();
    const auto y = conv2d(a, b, {.padding = {1, 1}}, math);
    const auto g = sum(y * y).backward();
    return std::array{y.inner().template to_vector<float>(), a.grad(g)->template to_vector<float>(),
                      b.grad(g)->template to_vector<float>()};
  };
  const auto chain = gradients(Stream::cpu(1), {});
  EXPECT_EQ(chain,
            gradients(Stream::cpu(2).with_math(ProductMath::tensor_core), ProductMath::chain));
  for (const ProductMath math : {ProductMath::exact, ProductMath::tensor_core}) {
    const auto followed = gradients(Stream::cpu(2).with_math(math), {});
    EXPECT_EQ(followed, gradients(Stream::cpu(1), math)) << name(math);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(followed[i], chain[i]) << name(math) << " " << i;
  }
}

// Sums of more products than int64 holds.
TEST(Conv, ExactSumsOfManyPlaces) {
  auto c = *verify::conv_example("conv2d_weight", {Dtype::f32, std::nullopt}, {1, 1, 520, 521});
  c.attributes = {{"math", "exact"}, {"kernel", "1x1"}};
  const NamedTensors inputs = c.make_inputs();
  const ConvProblem p = problem_of(c);
  EXPECT_EQ(verify::bit_difference(ConvReference(p, inputs).expected(), run_case(c, inputs, 2)),
            "");
}

TEST(Conv, IntegersReachTheEndsOfTheirRange) {
  const Shape shape = {1, 131071, 1, 1};
  const std::vector<std::int8_t> low(131071, -128), high(131071, 127);
  std::int32_t y = 0;
  run<Conv2dPlan<std::int8_t>>({shape, shape},
                               {{low.data(), shape}, {low.data(), shape}, {&y, {1, 1, 1, 1}}});
  EXPECT_EQ(y, 16384 * std::int32_t{131071});
  run<Conv2dPlan<std::int8_t>>({shape, shape},
                               {{low.data(), shape}, {high.data(), shape}, {&y, {1, 1, 1, 1}}});
  EXPECT_EQ(y, -128 * 127 * std::int32_t{131071});
}

TEST(Conv, OfIntegerTensorsGivesIntegers) {
  using Int = Tensor<Cpu, IntKind>;
  const std::vector<std::int8_t> x = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w = {1, 0, 0, -1};
  const auto y = conv2d(Int::from(std::span<const std::int8_t>(x), {1, 1, 3, 3}),
                        Int::from(std::span<const std::int8_t>(w), {1, 1, 2, 2}));
  EXPECT_EQ(y.to_vector<std::int32_t>(), (std::vector<std::int32_t>{-4, -4, -4, -4}));
}

TEST(Conv, RefusesWhatItCannotDo) {
  const auto message = [](const ConvProblem& p) {
    const auto ok = p.check();
    return ok ? std::string() : ok.error().message;
  };
  constexpr auto kForward = ConvKind::conv2d, kInput = ConvKind::conv2d_input;
  EXPECT_EQ(message({kForward, Dtype::s8, {1, 131072, 1, 1}, {1, 131072, 1, 1}, {}}),
            "conv2d: 131072 products per element, sums of s8 products fit in i32 up to 131071");
  EXPECT_EQ(message({kInput, Dtype::s8, {1, 1, 1, 1}, {1, 1, 1, 1}, {}}),
            "conv2d_input: element dtype is s8, must be f32, f64, f16 or bf16");
  EXPECT_EQ(
      message({kForward, Dtype::f32, {1, 1, 3, 3}, {1, 1, 3, 3}, {.stride = {0, 1}}}),
      "conv2d: along height, stride is 0, dilation 1, padding 0: must be at least 1, 1 and 0, "
      "and below 2^31");
  EXPECT_EQ(message({kForward, Dtype::f32, {1, 1, 3, 3}, {1, 1, 0, 3}, {}}),
            "conv2d: x has height 3, the kernel 0: must be at least 0 and 1, and below 2^31");
  EXPECT_EQ(message({kForward, Dtype::f64, {1, 1, 3, 3}, {1, 1, 3, 3}, {}, ProductMath::exact}),
            "conv2d: math is exact, which is not defined for f64");
  const auto refused = [](const Attributes& attributes, const Shape& dy) {
    const auto p =
        parse_problem(all_ops(), "conv2d_input", attributes,
                      {{"dy", {Dtype::f32, dy}}, {"weight", {Dtype::f32, {2, 1, 2, 2}}}});
    return p ? std::string() : p.error().message;
  };
  EXPECT_EQ(refused({{"size", "3x4"}}, {1, 2, 2, 3}), "");
  EXPECT_EQ(refused({{"size", "3x4"}}, {1, 2, 2, 2}),
            "conv2d_input: dy has shape [1, 2, 2, 2], that of conv2d's y is [1, 2, 2, 3]");
  EXPECT_EQ(refused({{"size", "3x4"}, {"math", "fast"}}, {1, 2, 2, 3}),
            "conv2d_input: math is fast, must be chain, exact or tensor_core");
  EXPECT_EQ(refused({{"size", "3"}, {"stride", "1x"}}, {1, 2, 2, 2}),
            "conv2d_input: stride=1x is not a whole number, nor two as 3x2 or 3,2");
}

// What 32-bit coordinates cannot hold is refused by name, not computed wrongly.
TEST(Conv, CudaRefusesWhatItCannotCount) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const auto refusal = [](ConvProblem p) {
    for (const Kernel<ConvProblem>& k : p.kernels())
      if (k.device == DeviceKind::cuda) return k.reject(p);
    return std::string("no such row");
  };
  for (ConvKind kind : {ConvKind::conv2d, ConvKind::conv2d_input, ConvKind::conv2d_weight}) {
    ConvProblem p{kind, Dtype::f32, {1, 1, 1, kMost - 3}, {1, 1, 1, 3}, {}};
    EXPECT_EQ(refusal(p), "");
    p.options.padding = {0, 2};
    EXPECT_NE(refusal(p).find("1073741825 pixels"), std::string::npos) << refusal(p);
    p = {kind, Dtype::f32, {kMost, 1, 1, 1}, {1, 1, 1, 1}, {}};
    EXPECT_NE(refusal(p).find("1073741824 images"), std::string::npos) << refusal(p);
    p = {kind, Dtype::f32, {1, kMost, 1, 1}, {1, kMost, 1, 1}, {}};
    EXPECT_NE(refusal(p).find("1073741824 products"), std::string::npos) << refusal(p);
  }
}

}  // namespace
}  // namespace planck
