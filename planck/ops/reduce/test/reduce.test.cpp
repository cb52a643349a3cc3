// Reductions against naive loops: the promised bits in the canonical order, and the exact value
// within the promised bound. Memory, layouts, threads and errors are held by the conformance tests.
#include <limits>

#include "planck/ops/reduce/reduce.problem.h"
#include "planck/ops/reduce/test/reference.test.h"

namespace planck {
namespace {

using namespace rows_test;

template <class C>
std::vector<C> running(const std::vector<C>& x) {  // as written in planck/math/running_sum.h
  std::vector<C> totals, out(x.size());
  for (std::size_t b = 0; b < x.size(); b += 32) {
    C p = x[b];
    out[b] = p;
    for (std::size_t i = b + 1; i < std::min(x.size(), b + 32); ++i) out[i] = p = p + x[i];
    totals.push_back(p);
  }
  if (totals.size() == 1 || x.empty()) return out;
  totals.pop_back();
  const std::vector<C> before = running(totals);
  for (std::size_t i = 32; i < x.size(); ++i) out[i] = before[i / 32 - 1] + out[i];
  return out;
}

bool above(double a, double b) {
  return a > b || (a == 0 && b == 0 && !std::signbit(a) && std::signbit(b));
}

// What a float reduction of these values gives, before the rounding at the store.
template <class C>
double promised(const Case& c, const std::vector<C>& v) {
  const auto n = static_cast<C>(v.size());
  if (c.op == "sum") return pairwise_sum(v);
  if (c.op == "mean") return pairwise_sum(v) / n;
  if (c.op == "prod") return pairwise(v, 0, v.size(), C(1), [](C a, C b) { return a * b; });
  if (c.op == "max" || c.op == "min") {
    double best = v[0];
    for (C x : v) {
      if (std::isnan(x)) return std::nan("");
      if (c.op == "max" ? above(x, best) : above(best, x)) best = x;
    }
    return best;
  }
  if (c.op == "var") return chunked_var(v, std::stoll(attribute(c, "correction", "1")));
  if (c.op == "logsumexp") return chunked_logsumexp(v);
  double best = 0;
  for (std::size_t i = 1; i < v.size(); ++i) {
    const double now = v[i], so_far = v[static_cast<std::size_t>(best)];
    if (std::isnan(so_far)) break;
    if (std::isnan(now) || (c.op == "argmax" ? now > so_far : now < so_far))
      best = static_cast<double>(i);
  }
  return best;
}

template <class C>
void check_floats(const Case& c, const NamedTensors& in) {
  const HostTensor& x = in.find("x")->second;
  const auto groups = members(c, x.shape);
  with_outputs(c, in, [&](const NamedTensors& outputs, const KernelStatus& kernel) {
    const HostTensor& out = outputs.find("out")->second;
    HostTensor expected(out.dtype, out.shape);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<C> v;
      double magnitude = 0;
      long double exact = 0, largest = -std::numeric_limits<long double>::infinity();
      for (std::int64_t i : groups[g]) {
        v.push_back(static_cast<C>(x.number(i)));
        magnitude += std::abs(x.number(i));
        exact += static_cast<long double>(x.number(i));
        largest = std::max(largest, static_cast<long double>(x.number(i)));
      }
      const auto at = static_cast<std::int64_t>(g);
      if (c.op == "cumsum") {
        const bool reverse = attribute(c, "reverse", "false") == "true";
        if (reverse) std::reverse(v.begin(), v.end());
        std::vector<C> sums = running(v);
        if (reverse) std::reverse(sums.begin(), sums.end());
        for (std::size_t i = 0; i < v.size(); ++i)
          expected.set_number(groups[g][i],
                              std::isnan(sums[i]) ? std::nan("") : static_cast<double>(sums[i]));
        continue;
      }
      if (c.op == "logsumexp") {
        bool nan = false;
        for (C e : v) nan |= std::isnan(e);
        long double sum = 0;
        for (C e : v) sum += std::exp(static_cast<long double>(e) - largest);
        const long double value = nan                   ? std::nanl("")
                                  : std::isinf(largest) ? largest
                                                        : largest + std::log(sum);
        const double got = out.number(at), want = static_cast<double>(value);
        if (std::isnan(want) || std::isinf(want)) {
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << c.id() << " " << g;
        } else {
          const double scale = std::max(std::abs(want), static_cast<double>(std::abs(largest)));
          const double bound =
              (kernel.guarantee.max_ulp + 1) * ulp_at(out.dtype, std::max(scale, 1.0));
          ASSERT_LE(std::abs(got - want), bound) << c.id() << " " << g << " " << kernel.name;
        }
      }
      const double value = promised(c, v);
      if (is_float(out.dtype))
        expected.set_number(at, std::isnan(value) ? std::nan("") : value);
      else
        expected.set_pattern(at, static_cast<std::uint64_t>(value));
      if (c.op == "sum" && std::isfinite(magnitude) && std::isfinite(out.number(at))) {
        const double error =
            std::abs(static_cast<double>(static_cast<long double>(out.number(at)) - exact));
        ASSERT_LE(error, ulp_at(out.dtype, static_cast<double>(exact)) +
                             kernel.guarantee.max_ulp * ulp_at(out.dtype, magnitude))
            << c.id() << " " << g;
      }
    }
    ASSERT_EQ(verify::bit_difference(expected, out), "") << c.id() << " " << kernel.name;
  });
}

// Integers wrap; all their bits count.
template <class U>
void check_integers(const Case& c, const NamedTensors& in) {
  using S = std::make_signed_t<U>;
  const HostTensor& x = in.find("x")->second;
  const auto groups = members(c, x.shape);
  with_outputs(c, in, [&](const NamedTensors& outputs, const KernelStatus& kernel) {
    const HostTensor& out = outputs.find("out")->second;
    HostTensor expected(out.dtype, out.shape);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<std::int64_t> order = groups[g];
      if (attribute(c, "reverse", "false") == "true") std::reverse(order.begin(), order.end());
      const bool product = c.op == "prod" || c.op == "all";
      U sum = product ? 1 : 0;
      std::size_t best = 0;
      for (std::size_t i = 0; i < order.size(); ++i) {
        const U value = static_cast<U>(x.pattern(order[i]));
        sum = static_cast<U>(product ? sum * value : c.op == "any" ? sum | value : sum + value);
        if (c.op == "cumsum") expected.set_pattern(order[i], sum);
        const auto now = static_cast<S>(value), so_far = static_cast<S>(x.pattern(order[best]));
        if (c.op == "max" || c.op == "argmax" ? now > so_far : now < so_far) best = i;
      }
      const auto at = static_cast<std::int64_t>(g);
      if (c.op == "max" || c.op == "min")
        expected.set_pattern(at, x.pattern(order[best]));
      else if (c.op.starts_with("arg"))
        expected.set_pattern(at, best);
      else if (c.op != "cumsum")
        expected.set_pattern(at, sum);
    }
    ASSERT_EQ(verify::bit_difference(expected, out), "") << c.id() << " " << kernel.name;
  });
}

void check(const Case& c) {
  const NamedTensors in = c.make_inputs();
  switch (in.find("x")->second.dtype) {
    case Dtype::f64:
      return check_floats<double>(c, in);
    case Dtype::i64:
      return check_integers<std::uint64_t>(c, in);
    case Dtype::i32:
      return check_integers<std::uint32_t>(c, in);
    case Dtype::boolean:
      return check_integers<std::uint8_t>(c, in);
    default:
      return check_floats<float>(c, in);
  }
}

TEST(Reduce, EveryKernelAgreesWithTheReference) {
  std::size_t cases = 0;
  for (const Case& c : verify::reduce_cases(verify::ListSize::usual)) {
    if (c.op == "cummax" || c.op == "cummin") continue;  // running_extreme.test.cpp
    check(c);
    ++cases;
    if (HasFatalFailure() || HasFailure()) return;
  }
  EXPECT_GT(cases, 500u);
}

Case one(std::string op, Dtype dtype, Shape shape, std::string axes) {
  Case c{.op = std::move(op),
         .attributes = {{"axes", std::move(axes)}},
         .inputs = {},
         .output_layouts = {},
         .seed = 1};
  c.inputs.push_back({.name = "x", .dtype = dtype, .shape = shape});
  return c;
}

std::string message(const Case& c) {
  const auto problem = verify::parse_problem(all_ops(), c);
  return problem ? "" : problem.error().message;
}

TEST(Reduce, RefusesWhatHasNoResult) {
  EXPECT_NE(message(one("max", Dtype::f32, {3, 0}, "1")).find("axes 1 of shape [3, 0]"),
            std::string::npos);
  EXPECT_NE(message(one("argmin", Dtype::f32, {0}, "all")).find("needs one"), std::string::npos);
  EXPECT_NE(message(one("argmax", Dtype::f32, {2, 3, 4}, "0,2")).find("one axis or all 3"),
            std::string::npos);
  EXPECT_NE(message(one("sum", Dtype::f32, {2, 3}, "2")).find("axes are 2"), std::string::npos);
  EXPECT_NE(message(one("mean", Dtype::i32, {2, 3}, "0")).find("x is i32"), std::string::npos);
  EXPECT_NE(message(one("cumsum", Dtype::f32, {2, 3}, "0,1")).find("must be one axis"),
            std::string::npos);
  EXPECT_EQ(message(one("sum", Dtype::f32, {3, 0}, "1")), "");
}

TEST(Reduce, WorkedExamples) {
  Case c = one("argmax", Dtype::f32, {6}, "all");
  NamedTensors in = c.make_inputs();
  const auto put = [&](std::initializer_list<double> values) {
    std::int64_t i = 0;
    for (double v : values) in.find("x")->second.set_number(i++, v);
  };
  const auto result = [&](std::string op) {
    c.op = std::move(op);
    double value = 0;
    with_outputs(c, in, [&](const NamedTensors& o, const KernelStatus&) {
      value = o.find("out")->second.number(0);
    });
    return value;
  };
  put({-0.0, 0.0, -1, 0.0, -0.0, -2});
  EXPECT_EQ(result("argmax"), 0);
  EXPECT_FALSE(std::signbit(result("max")));
  put({1, 3, NAN, 3, NAN, 5});
  EXPECT_EQ(result("argmax"), 2);
  EXPECT_EQ(result("argmin"), 2);
  EXPECT_TRUE(std::isnan(result("max")));
  put({2, 1, 3, 1, 3, 1});
  EXPECT_EQ(result("argmin"), 1);
  EXPECT_EQ(result("sum"), 11);
  EXPECT_EQ(result("prod"), 18);
}

}  // namespace
}  // namespace planck
