// Scale and zero point from the data: worked examples, and groups of columns against groups of
// rows.
#include "planck/ops/quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "planck/verify/run_plan.test.h"

namespace planck {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(DynamicQuantize, WorkedExamples) {
  const Shape shape = {4, 4};
  const std::vector<float> x = {0,   0,    0,     0,    -1,     2, kInf, kNan,
                                127, -127, 63.5f, 0.5f, 1e-45f, 0, 0,    0};
  std::vector<std::int8_t> q(16);
  std::vector<float> s(4);
  std::vector<std::int32_t> z(4, 99);
  run<DynamicQuantizePerTokenPlan<float, std::int8_t>>(
      {.shape = shape}, {{x.data(), shape}, {q.data(), shape}, {s.data(), {4}}, {z.data(), {4}}});
  EXPECT_EQ(s, (std::vector<float>{1, 2.0f / 127, 1, 1e-45f}));
  EXPECT_EQ(z, (std::vector<std::int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(q,
            (std::vector<std::int8_t>{0, 0, 0, 0, -64, 127, 127, 0, 127, -127, 64, 0, 1, 0, 0, 0}));

  const std::vector<float> a = {-1, 3, 0, 1};
  std::vector<std::uint8_t> u(4);
  run<DynamicQuantizePerTensorPlan<float, std::uint8_t>>(
      {.shape = {4}, .symmetric = false},
      {{a.data(), {4}}, {u.data(), {4}}, {s.data(), {}}, {z.data(), {}}});
  EXPECT_EQ(s[0], 4.0f / 255);
  EXPECT_EQ(z[0], 64);
  EXPECT_EQ(u, (std::vector<std::uint8_t>{0, 255, 64, 128}));
}

// One group per column is one group per row of the transposed matrix, as a copy or as a view,
// whatever the numbers are.
template <class T>
void columns_are_rows() {
  constexpr std::size_t kRows = 131, kColumns = 192;
  const Shape shape = {kRows, kColumns}, turned = {kColumns, kRows};
  std::vector<T> x(kRows * kColumns), copy(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = T(std::sin(static_cast<float>(i) * 0.37f) * static_cast<float>(i % 50));
    if (i % 331 == 0) x[i] = T(i % 2 ? kInf : kNan);
    if (i % kColumns == 7) x[i] = T(-1.0f);
    copy[i % kColumns * kRows + i / kColumns] = x[i];
  }
  struct Result {
    std::vector<std::uint8_t> q = std::vector<std::uint8_t>(kRows * kColumns);
    std::vector<T> s = std::vector<T>(kColumns);
    std::vector<std::int32_t> z = std::vector<std::int32_t>(kColumns);
  };
  Result columns, rows, view;
  const auto by_rows = [&](const TensorView<const T>& from, Result& to) {
    run<DynamicQuantizePerTokenPlan<T, std::uint8_t>>(
        {.shape = turned, .symmetric = false},
        {from, {to.q.data(), turned}, {to.s.data(), {kColumns}}, {to.z.data(), {kColumns}}});
  };
  by_rows({copy.data(), turned}, rows);
  by_rows({x.data(), turned, {1, kColumns}}, view);
  run<DynamicQuantizePerChannelPlan<T, std::uint8_t>>(
      {.shape = shape, .groups = {.axis = 1}, .symmetric = false},
      {{x.data(), shape},
       {columns.q.data(), shape},
       {columns.s.data(), {kColumns}},
       {columns.z.data(), {kColumns}}});
  EXPECT_EQ(columns.z, rows.z);
  EXPECT_EQ(view.z, rows.z);
  EXPECT_EQ(view.q, rows.q);
  for (std::size_t c = 0; c < kColumns; ++c) {
    EXPECT_EQ(static_cast<float>(columns.s[c]), static_cast<float>(rows.s[c])) << c;
    EXPECT_EQ(static_cast<float>(view.s[c]), static_cast<float>(rows.s[c])) << c;
  }
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(columns.q[i], rows.q[i % kColumns * kRows + i / kColumns]) << i;
}
TEST(DynamicQuantize, ColumnsAreRows) {
  columns_are_rows<float>();
  columns_are_rows<f16>();
  columns_are_rows<bf16>();
}

}  // namespace
}  // namespace planck
