// cummax and cummin against naive loops, and worked examples. Memory, layouts, threads and errors
// are held by the conformance tests.
#include <array>

#include "planck/ops/reduce/reduce.h"
#include "planck/ops/reduce/test/reference.test.h"

namespace planck {
namespace {

using namespace rows_test;

bool runs_extreme(const Case& c) { return c.op == "cummax" || c.op == "cummin"; }

// An element as the formula compares it: integers with all their bits.
long double element(const HostTensor& x, std::int64_t i) {
  if (is_float(x.dtype)) return static_cast<long double>(x.number(i));
  if (x.dtype == Dtype::i32)
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(x.pattern(i)));
  return static_cast<long double>(static_cast<std::int64_t>(x.pattern(i)));
}

struct Expected {
  HostTensor values, indices;
};

// Walks the axis once; extents off the axis in row-major order.
Expected expected_of(const Case& c, const HostTensor& x) {
  Expected e{HostTensor(x.dtype, x.shape), HostTensor(Dtype::i64, x.shape)};
  const int axis = attribute(c, "axes", "0")[0] - '0';
  std::int64_t inner = 1, outer = 1;
  for (int d = 0; d < x.shape.rank(); ++d) (d < axis ? outer : inner) *= x.shape[d];
  const std::int64_t length = x.shape[axis];
  inner = length == 0 ? 0 : inner / length;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t in = 0; in < inner; ++in) {
      std::int64_t best = 0;
      const auto at = [&](std::int64_t k) { return (o * length + k) * inner + in; };
      for (std::int64_t k = 0; k < length; ++k) {
        const long double now = element(x, at(k)), so_far = element(x, at(best));
        if (std::isnan(now) || (c.op == "cummax" ? now >= so_far : now <= so_far)) best = k;
        if (is_float(x.dtype) && std::isnan(x.number(at(best))))
          e.values.set_number(at(k), std::nan(""));  // the one NaN
        else
          e.values.set_pattern(at(k), x.pattern(at(best)));
        e.indices.set_pattern(at(k), static_cast<std::uint64_t>(best));
      }
    }
  return e;
}

void check(const Case& c, const NamedTensors& in) {
  const Expected e = expected_of(c, in.find("x")->second);
  with_outputs(c, in, [&](const NamedTensors& outputs, const KernelStatus& kernel) {
    ASSERT_EQ(verify::bit_difference(e.values, outputs.find("values")->second), "")
        << c.id() << " " << kernel.name;
    ASSERT_EQ(verify::bit_difference(e.indices, outputs.find("indices")->second), "")
        << c.id() << " " << kernel.name;
  });
}

TEST(RunningExtreme, EveryKernelAgreesWithTheReference) {
  std::size_t cases = 0;
  for (const Case& c : verify::reduce_cases(verify::ListSize::usual)) {
    if (!runs_extreme(c)) continue;
    check(c, c.make_inputs());
    ++cases;
    if (HasFatalFailure() || HasFailure()) return;
  }
  EXPECT_GT(cases, 100u);
}

// Few distinct values, zeros of both signs and NaN among them, across tiles and panels; runs that
// take over at every step, and never.
TEST(RunningExtreme, TiesZerosNanAndStaircases) {
  constexpr std::array<double, 5> kFew = {-0.0, 0.0, 1, -1, 1};
  for (const char* op : {"cummax", "cummin"})
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16})
      for (const int axis : {0, 1})
        for (const int pattern : {0, 1, 2, 3}) {
          const Shape shape = axis == 1 ? Shape{3, 4500} : Shape{450, 530};
          Case c{.op = op,
                 .attributes = {{"axes", std::to_string(axis)}},
                 .inputs = {},
                 .output_layouts = {},
                 .seed = 1};
          c.inputs.push_back({.name = "x", .dtype = dtype, .shape = shape});
          NamedTensors in = c.make_inputs();
          HostTensor& x = in.find("x")->second;
          for (std::int64_t i = 0; i < x.count(); ++i) {
            const std::int64_t k = axis == 1 ? i % shape[1] : i / shape[1];
            const auto step = static_cast<double>(k / 64);  // exact in 16 bits, ties between
            const double few = kFew[static_cast<std::size_t>((i * 7 + i / 11) % 5)];
            const bool nan = pattern == 3 && i % 3001 == 2500;
            x.set_number(i, nan ? std::nan("") : pattern == 1 ? step : pattern == 2 ? -step : few);
          }
          check(c, in);
          if (HasFatalFailure()) return;
        }
}

template <class Plan, class T, std::size_t N>
std::pair<std::array<T, N>, std::array<std::int64_t, N>> run(const std::array<T, N>& x,
                                                             const Shape& shape, unsigned axes) {
  const Stream stream = Stream::cpu(1);
  std::array<T, N> values{};
  std::array<std::int64_t, N> indices{};
  const auto plan = Plan::select(stream, {.x = shape, .axes = axes});
  EXPECT_TRUE(plan) << plan.error().message;
  const auto ran = plan->run(stream, {},
                             {.x = {x.data(), shape},
                              .values = {values.data(), shape},
                              .indices = {indices.data(), shape}});
  EXPECT_TRUE(ran) << ran.error().message;
  return {values, indices};
}

using Indices6 = std::array<std::int64_t, 6>;

TEST(RunningExtreme, TypedPlansOnWorkedExamples) {
  const std::array<float, 6> x = {2, 1, 3, 3, 1, 4};
  const auto [most, most_at] = run<CummaxPlan<float>>(x, {6}, 0b1);
  EXPECT_EQ(most, (std::array<float, 6>{2, 2, 3, 3, 3, 4}));
  EXPECT_EQ(most_at, (Indices6{0, 0, 2, 3, 3, 5}));
  const auto [least, least_at] = run<CumminPlan<float>>(x, {6}, 0b1);
  EXPECT_EQ(least, (std::array<float, 6>{2, 1, 1, 1, 1, 1}));
  EXPECT_EQ(least_at, (Indices6{0, 1, 1, 1, 4, 4}));
  const auto [down, down_at] = run<CummaxPlan<float>>(x, {3, 2}, 0b01);
  EXPECT_EQ(down, (std::array<float, 6>{2, 1, 3, 3, 3, 4}));
  EXPECT_EQ(down_at, (Indices6{0, 0, 1, 1, 1, 2}));
  const auto [even, even_at] =
      run<CummaxPlan<float>>(std::array<float, 6>{5, 1, 5, 1, 4, 1}, {3, 2}, 0b01);
  EXPECT_EQ(even, (std::array<float, 6>{5, 1, 5, 1, 5, 1}));
  EXPECT_EQ(even_at, (Indices6{0, 0, 1, 1, 1, 2}));

  constexpr std::int64_t kBig = std::int64_t{1} << 53;  // a double cannot tell it from the next
  const auto [big, big_at] =
      run<CummaxPlan<std::int64_t>>(std::array<std::int64_t, 3>{kBig, kBig + 1, INT64_MIN}, {3}, 1);
  EXPECT_EQ(big, (std::array<std::int64_t, 3>{kBig, kBig + 1, kBig + 1}));
  EXPECT_EQ(big_at, (std::array<std::int64_t, 3>{0, 1, 1}));
}

// Values and indices of torch.cummax and torch.cummin.
TEST(RunningExtreme, TheLastOfEqualZerosAndOfNanStays) {
  const auto [zeros, zeros_at] =
      run<CummaxPlan<double>>(std::array<double, 6>{-1, -0.0, 0.0, -0.0, NAN, NAN}, {6}, 1);
  EXPECT_TRUE(std::signbit(zeros[1]) && !std::signbit(zeros[2]) && std::signbit(zeros[3]));
  EXPECT_TRUE(std::isnan(zeros[4]) && std::isnan(zeros[5]));
  EXPECT_EQ(zeros_at, (Indices6{0, 1, 2, 3, 4, 5}));
  const auto [nan, nan_at] =
      run<CumminPlan<double>>(std::array<double, 6>{-INFINITY, -NAN, -INFINITY, 1, NAN, 0}, {6}, 1);
  EXPECT_EQ(nan[0], -INFINITY);
  EXPECT_TRUE(std::isnan(nan[1]) && !std::signbit(nan[1]) && std::isnan(nan[5]));
  EXPECT_EQ(nan_at, (Indices6{0, 1, 1, 1, 4, 4}));
}

TEST(RunningExtreme, RefusesWrongAxesAndOperands) {
  const Stream stream = Stream::cpu(1);
  const auto both = CummaxPlan<float>::select(stream, {.x = {2, 3}, .axes = 0b11});
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().message, "cummax: axes are 0,1, must be one axis");
  const auto absent = CumminPlan<float>::select(stream, {.x = {2, 3}, .axes = 0b100});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message, "cummin: axes are 2, x has 2 of them");
  const auto plan = CummaxPlan<float>::select(stream, {.x = {3}});
  ASSERT_TRUE(plan) << plan.error().message;
  std::array<float, 3> x{}, values{};
  std::array<std::int64_t, 3> indices{};
  const auto wrong = plan->run(
      stream, {},
      {.x = {x.data(), {3}}, .values = {values.data(), {3}}, .indices = {indices.data(), {2}}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "cummax: indices has shape [2], the descriptor says [3]");
}

}  // namespace
}  // namespace planck
