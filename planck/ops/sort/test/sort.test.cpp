// The sort family against std::stable_sort with a comparison of its own, on every case of its list,
// and worked examples. Layouts, memory and errors are held by the conformance tests.
#include "planck/ops/sort/sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planck/verify/run_plan.test.h"
#include "planck/verify/with_outputs.test.h"

namespace planck {
namespace {

using verify::Case;
using verify::HostTensor;
using verify::NamedTensors;

// Whether element a of x is less than element b: NaN is greatest.
bool less(const HostTensor& x, std::int64_t a, std::int64_t b) {
  if (x.dtype == Dtype::i64)
    return static_cast<std::int64_t>(x.pattern(a)) < static_cast<std::int64_t>(x.pattern(b));
  const double u = x.number(a), v = x.number(b);
  if (std::isnan(u) || std::isnan(v)) return std::isnan(v) && !std::isnan(u);
  return u < v;
}

struct Expected {
  std::vector<std::uint64_t> values;
  std::vector<std::int64_t> indices;
};

Expected reference(const Case& c, const HostTensor& x) {
  const auto text = [&](const char* key, const char* otherwise) {
    const auto it = c.attributes.find(key);
    return it == c.attributes.end() ? std::string(otherwise) : it->second;
  };
  std::int64_t axis = std::stoll(text("axis", "-1"));
  if (axis < 0) axis += x.shape.rank();
  const bool topk = c.op == "topk";
  const bool descending =
      topk ? text("largest", "true") == "true" : text("descending", "false") == "true";
  const std::int64_t n = x.shape[static_cast<int>(axis)];
  const std::int64_t kept = topk ? std::stoll(text("k", "0")) : n;
  std::int64_t inner = 1;
  for (int d = static_cast<int>(axis) + 1; d < x.shape.rank(); ++d) inner *= x.shape[d];
  const std::int64_t outer = x.count() == 0 ? 0 : x.count() / n / inner;
  Expected e;
  e.values.resize(static_cast<std::size_t>(outer * kept * inner));
  e.indices.resize(e.values.size());
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto at = [&](std::int64_t k) { return (o * n + k) * inner + i; };
      std::vector<std::int64_t> order(static_cast<std::size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return descending ? less(x, at(b), at(a)) : less(x, at(a), at(b));
      });
      for (std::int64_t r = 0; r < kept; ++r) {
        const auto to = static_cast<std::size_t>((o * kept + r) * inner + i);
        e.indices[to] = order[static_cast<std::size_t>(r)];
        e.values[to] = x.pattern(at(e.indices[to]));
      }
    }
  return e;
}

TEST(Sort, EveryKernelAgreesWithTheReference) {
  const auto cases = verify::sort_cases(verify::ListSize::usual);
  EXPECT_GT(cases.size(), 150u);
  for (const Case& c : cases) {
    const NamedTensors inputs = c.make_inputs();
    const Expected expected = reference(c, inputs.find("x")->second);
    verify::with_outputs(c, inputs, [&](const NamedTensors& outputs, const KernelStatus&) {
      const HostTensor& indices = outputs.find("indices")->second;
      ASSERT_EQ(indices.count(), static_cast<std::int64_t>(expected.indices.size()));
      for (std::int64_t i = 0; i < indices.count(); ++i) {
        const auto k = static_cast<std::size_t>(i);
        ASSERT_EQ(static_cast<std::int64_t>(indices.pattern(i)), expected.indices[k]) << i;
        if (c.op == "argsort") continue;
        ASSERT_EQ(outputs.find("values")->second.pattern(i), expected.values[k]) << i;
      }
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Sort, PutsNanLastAndKeepsZerosInOrder) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float x[] = {1, nan, -0.0f, 0.0f, -std::numeric_limits<float>::infinity(), -0.0f, 2, -nan};
  float values[8];
  std::int64_t indices[8];
  run<SortPlan<float>>({.x = {8}, .axis = 0},
                       {.x = {x, {8}}, .values = {values, {8}}, .indices = {indices, {8}}});
  const std::int64_t ascending[] = {4, 2, 3, 5, 0, 6, 1, 7};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(indices[i], ascending[i]) << i;
  EXPECT_TRUE(std::signbit(values[1]));
  EXPECT_FALSE(std::signbit(values[2]));
  EXPECT_TRUE(std::signbit(values[3]));
  run<SortPlan<float>>({.x = {8}, .axis = 0, .descending = true},
                       {.x = {x, {8}}, .values = {values, {8}}, .indices = {indices, {8}}});
  const std::int64_t descending[] = {1, 7, 6, 0, 2, 3, 5, 4};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(indices[i], descending[i]) << i;
}

TEST(Sort, TopkTakesTheFirstOfEqualOnes) {
  const std::int64_t x[] = {3, 9, 3, 9, 1, 9};
  std::int64_t values[4], indices[4];
  run<TopkPlan<std::int64_t>>({.x = {6}, .axis = 0, .k = 4},
                              {.x = {x, {6}}, .values = {values, {4}}, .indices = {indices, {4}}});
  const std::int64_t expected[] = {1, 3, 5, 0};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(indices[i], expected[i]) << i;
}

TEST(Sort, RefusesMoreThanThereAre) {
  const SortProblem p{.kind = SortKind::topk, .x = {2, 3}, .axis = 1, .k = 4};
  EXPECT_EQ(p.check().error().message, "topk: k is 4, the axis has 3 elements");
}

}  // namespace
}  // namespace planck
