// Convolutions against plain loops: the promised order bit for bit, and the error against sums in
// more precision. The reference knows shapes and values, nothing of the library.
#include "planck/ops/conv/conv.h"

#include <gtest/gtest.h>

#include <cmath>

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

struct Term {
  double a, b;
};
// The products of one output element, in order; every chunk is a chain of its own.
using Chunked = std::vector<std::vector<Term>>;

struct Reference {
  const ConvProblem& p;
  std::vector<double> first, second;

  Reference(const ConvProblem& problem, const NamedTensors& inputs) : p(problem) {
    const auto numbers = [&](std::string_view operand) {
      const HostTensor& t = inputs.find(operand)->second;
      std::vector<double> all;
      for (std::int64_t i = 0; i < t.count(); ++i) all.push_back(t.number(i));
      return all;
    };
    first = numbers(p.kind == ConvKind::conv2d_input ? "dy" : "x");
    second = numbers(p.kind == ConvKind::conv2d_weight ? "dy" : "weight");
  }

  static double at(const std::vector<double>& v, const Shape& s, std::int64_t a, std::int64_t b,
                   std::int64_t c, std::int64_t d) {
    return v[static_cast<std::size_t>(((a * s[1] + b) * s[2] + c) * s[3] + d)];
  }
  static double or_zero(const std::vector<double>& v, const Shape& s, std::int64_t a,
                        std::int64_t b, std::int64_t c, std::int64_t d) {
    return c < 0 || d < 0 || c >= s[2] || d >= s[3] ? 0 : at(v, s, a, b, c, d);
  }

  Shape output() const {
    return p.kind == ConvKind::conv2d ? p.y() : p.kind == ConvKind::conv2d_input ? p.x : p.weight;
  }

  Chunked terms(std::int64_t flat) const {
    const Shape o = output(), y = p.y();
    const std::int64_t d3 = flat % o[3], d2 = flat / o[3] % o[2], d1 = flat / o[3] / o[2] % o[1],
                       d0 = flat / o[3] / o[2] / o[1];
    const auto [sh, sw] = p.options.stride;
    const auto [ph, pw] = p.options.padding;
    const auto [dh, dw] = p.options.dilation;
    const std::int64_t kh = p.weight[2], kw = p.weight[3], channels = p.weight[1];
    const std::int64_t filters = p.weight[0] / p.options.groups;
    std::vector<Term> all;
    if (p.kind == ConvKind::conv2d) {  // [n, f, i, j]
      const std::int64_t group = d1 / filters;
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t u = 0; u < kh; ++u)
          for (std::int64_t v = 0; v < kw; ++v)
            all.push_back({at(second, p.weight, d1, c, u, v),
                           or_zero(first, p.x, d0, group * channels + c, d2 * sh + u * dh - ph,
                                   d3 * sw + v * dw - pw)});
      return {all};
    }
    if (p.kind == ConvKind::conv2d_input) {  // [n, c, h, w]
      const std::int64_t group = d1 / channels;
      for (std::int64_t f = 0; f < filters; ++f)
        for (std::int64_t u = 0; u < kh; ++u)
          for (std::int64_t v = 0; v < kw; ++v) {
            const std::int64_t h = d2 + ph - u * dh, w = d3 + pw - v * dw;
            if (h % sh != 0 || w % sw != 0) continue;
            all.push_back({at(second, p.weight, group * filters + f, d1 % channels, u, v),
                           or_zero(first, y, d0, group * filters + f, h / sh, w / sw)});
          }
      return {all};
    }
    const std::int64_t group = d0 / filters;  // [f, c, u, v]
    for (std::int64_t n = 0; n < y[0]; ++n)
      for (std::int64_t i = 0; i < y[2]; ++i)
        for (std::int64_t j = 0; j < y[3]; ++j)
          all.push_back(
              {at(second, y, n, d0, i, j), or_zero(first, p.x, n, group * channels + d1,
                                                   i * sh + d2 * dh - ph, j * sw + d3 * dw - pw)});
    // At most 64 chunks of equal length, 512 or longer, at most 2^22 sums of chunks.
    const auto places = static_cast<std::int64_t>(all.size());
    std::int64_t chunks = std::max<std::int64_t>(1, (places + 511) / 512);
    chunks =
        std::min({chunks, std::int64_t{64}, std::max<std::int64_t>(1, 4194304 / numel(p.weight))});
    const std::int64_t length = std::max<std::int64_t>(1, (places + chunks - 1) / chunks);
    Chunked cut;
    for (std::int64_t k = 0; k == 0 || k < places; k += length)
      cut.emplace_back(all.begin() + k, all.begin() + std::min(places, k + length));
    return cut;
  }
};

template <class C>
C chain(const Chunked& terms) {
  C total = 0;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    C sum = 0;
    for (const Term& term : terms[t])
      if constexpr (std::is_integral_v<C>)
        sum += static_cast<C>(term.a) * static_cast<C>(term.b);
      else
        sum = std::fma(static_cast<C>(term.a), static_cast<C>(term.b), sum);
    total = t == 0 ? sum : total + sum;
  }
  return total;
}

HostTensor expected(const Reference& r) {
  HostTensor out(r.p.kind == ConvKind::conv2d ? r.p.output_dtype() : r.p.element_dtype, r.output());
  for (std::int64_t i = 0; i < out.count(); ++i) {
    const Chunked terms = r.terms(i);
    if (r.p.element_dtype == Dtype::s8) {
      out.set_number(i, static_cast<double>(chain<std::int64_t>(terms)));
    } else if (r.p.element_dtype == Dtype::f64) {
      const double v = chain<double>(terms);
      out.set_pattern(i, v != v ? 0x7ff8000000000000u : std::bit_cast<std::uint64_t>(v));
    } else {
      float v = chain<float>(terms);
      if (v != v) v = std::bit_cast<float>(0x7fc00000u);
      out.set_pattern(i, out.dtype == Dtype::f32   ? std::bit_cast<std::uint32_t>(v)
                         : out.dtype == Dtype::f16 ? f16(v).bits
                                                   : bf16(v).bits);
    }
  }
  return out;
}

ConvProblem problem_of(const Case& c) {
  const auto numbers = [&](const char* attribute, std::int64_t otherwise) {
    std::array<std::int64_t, 2> v{otherwise, otherwise};
    if (const auto it = c.attributes.find(attribute); it != c.attributes.end()) {
      v[0] = std::stoll(it->second);
      v[1] = std::stoll(it->second.substr(it->second.find('x') + 1));
    }
    return v;
  };
  const Conv2dOptions o{numbers("stride", 1), numbers("padding", 0), numbers("dilation", 1),
                        numbers("groups", 1)[0]};
  const Shape &a = c.inputs[0].shape, &b = c.inputs[1].shape;
  const Dtype t = c.inputs[0].dtype;
  if (c.op == "conv2d") return {ConvKind::conv2d, t, a, b, o};
  if (c.op == "conv2d_input") {
    const auto size = numbers("size", 0);
    return {ConvKind::conv2d_input, t, {a[0], b[1] * o.groups, size[0], size[1]}, b, o};
  }
  const auto kernel = numbers("kernel", 0);
  return {ConvKind::conv2d_weight, t, a, {b[1], a[1] / o.groups, kernel[0], kernel[1]}, o};
}

HostTensor run_case(const Case& c, const NamedTensors& inputs, int threads) {
  auto problem = verify::parse_problem(all_ops(), c);
  EXPECT_TRUE(problem) << problem.error().message;
  const Stream stream = Stream::cpu(threads);
  const auto plan = (*problem)->select(stream, PlanPreference{});
  EXPECT_TRUE(plan) << plan.error().message;
  verify::Subject subject{&c, problem->get(), plan->get(), (*problem)->specs()};
  verify::Outcome outcome = execute(subject, stream, inputs, {.what = "", .layouts = {}});
  EXPECT_EQ(outcome.fault, "") << c.id();
  return std::move(outcome.outputs[conv_operand::out]);
}

TEST(Conv, IsThePromisedSum) {
  for (const Case& c : verify::conv_cases(verify::ListSize::usual)) {
    const NamedTensors inputs = c.make_inputs();
    const ConvProblem p = problem_of(c);
    ASSERT_EQ(verify::bit_difference(expected(Reference(p, inputs)), run_case(c, inputs, 2)), "")
        << c.id();
  }
}

// Relative to the sum of magnitudes, in units in the last place of the result.
TEST(Conv, KeepsItsBound) {
  std::size_t tried = 0;
  for (const Case& c : verify::conv_cases(verify::ListSize::usual)) {
    if (c.inputs[0].fill != verify::Fill::normal) continue;
    const NamedTensors inputs = c.make_inputs();
    const ConvProblem p = problem_of(c);
    const Reference r(p, inputs);
    const HostTensor got = run_case(c, inputs, 1);
    const int digits = p.element_dtype == Dtype::f64   ? 53
                       : p.element_dtype == Dtype::f32 ? 24
                       : p.element_dtype == Dtype::f16 ? 11
                                                       : 8;
    double worst = 0;
    for (std::int64_t i = 0; i < got.count(); ++i) {
      long double sum = 0, magnitude = 0;
      for (const auto& chunk : r.terms(i))
        for (const Term& t : chunk) {
          const long double product = static_cast<long double>(t.a) * t.b;
          sum += product;
          magnitude += std::abs(product);
        }
      if (magnitude < 1e-4) continue;
      const long double apart = std::abs(static_cast<long double>(got.number(i)) - sum);
      worst = std::max(worst, static_cast<double>(std::ldexp(apart / magnitude, digits - 1)));
      ++tried;
    }
    for (const auto& kernel : p.kernels())
      EXPECT_LE(worst, kernel.guarantee(p).max_ulp) << c.id() << " " << kernel.name;
  }
  EXPECT_GT(tried, 10000u);
}

TEST(Conv, ThreadsChangeNothing) {
  for (std::string_view op : {"conv2d", "conv2d_input", "conv2d_weight"}) {
    const auto c = verify::conv_example(op, {Dtype::f32, std::nullopt}, {7, 20, 31, 33});
    const NamedTensors inputs = c->make_inputs();
    const HostTensor one = run_case(*c, inputs, 1);
    for (int threads : {2, 3, 8})
      EXPECT_EQ(verify::bit_difference(one, run_case(*c, inputs, threads)), "") << op;
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
  const auto refused = [](const Attributes& attributes, const Shape& dy) {
    const auto p =
        parse_problem(all_ops(), "conv2d_input", attributes,
                      {{"dy", {Dtype::f32, dy}}, {"weight", {Dtype::f32, {2, 1, 2, 2}}}});
    return p ? std::string() : p.error().message;
  };
  EXPECT_EQ(refused({{"size", "3x4"}}, {1, 2, 2, 3}), "");
  EXPECT_EQ(refused({{"size", "3x4"}}, {1, 2, 2, 2}),
            "conv2d_input: dy has shape [1, 2, 2, 2], that of conv2d's y is [1, 2, 2, 3]");
  EXPECT_EQ(refused({{"size", "3"}, {"stride", "1x"}}, {1, 2, 2, 2}),
            "conv2d_input: stride=1x is not a number or two, as in 2x3");
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
