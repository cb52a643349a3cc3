// Nibbles of every 16-bit value, and inputs that lie transposed, against plain division.
#include "planck/ops/quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "planck/verify/run_plan.test.h"

namespace planck {
namespace {

int divided(float x, float s, std::int32_t z, int lowest, int highest) {
  const double t = std::nearbyint(static_cast<double>(x / s));
  return static_cast<int>(std::fmin(std::fmax((std::isnan(t) ? 0.0 : t) + z, lowest), highest));
}

// One of a tensor's integers, as it is stored.
int stored_at(const std::vector<s4>& q, std::size_t i) {
  const int nibble = i % 2 == 0 ? q[i / 2].pair & 15 : q[i / 2].pair >> 4;
  return (nibble ^ 8) - 8;
}
int stored_at(const std::vector<std::int8_t>& q, std::size_t i) { return q[i]; }

template <class T>
std::vector<T> some_scales(std::int64_t count) {
  std::vector<T> all;
  for (std::int64_t g = 0; g < count; ++g)
    all.emplace_back(std::ldexp(1.0f + static_cast<float>(g * 37 % 128) / 128.0f,
                                static_cast<int>(g % 23) - 11));
  return all;
}
std::vector<std::int32_t> some_zero_points(std::int64_t count) {
  std::vector<std::int32_t> all;
  for (std::int64_t g = 0; g < count; ++g) all.push_back(static_cast<std::int32_t>(g % 15) - 7);
  return all;
}

// x [rows, columns] in memory of the given strides; group_of(row, column).
template <class Q, class T, class Groups, class GroupOf>
void expect_divided(const std::vector<T>& x, Shape shape, Strides strides, Groups groups,
                    Shape group_shape, GroupOf group_of) {
  const auto scale = some_scales<T>(numel(group_shape));
  const auto zero = some_zero_points(numel(group_shape));
  const auto count = static_cast<std::size_t>(numel(shape));
  std::vector<Q> q(std::is_same_v<Q, s4> ? count / 2 : count);
  run<QuantizePlan<Groups, T, Q>>({.shape = shape, .groups = groups}, {{x.data(), shape, strides},
                                                                       {scale.data(), group_shape},
                                                                       {zero.data(), group_shape},
                                                                       {q.data(), shape}});
  constexpr int kLowest = std::is_same_v<Q, s4> ? -8 : -128, kHighest = -kLowest - 1;
  int wrong = 0;
  for (std::int64_t r = 0; r < shape[0]; ++r)
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      const auto g = static_cast<std::size_t>(group_of(r, c));
      const auto v =
          static_cast<float>(x[static_cast<std::size_t>(r * strides[0] + c * strides[1])]);
      const int want = divided(v, static_cast<float>(scale[g]), zero[g], kLowest, kHighest);
      wrong += stored_at(q, static_cast<std::size_t>(r * shape[1] + c)) == want ? 0 : 1;
    }
  EXPECT_EQ(wrong, 0) << to_string(shape) << ", strides " << strides[0] << ", " << strides[1];
}

template <class T>
void nibbles_of_every_value() {
  // 64 rows: every value meets many scales. Not a multiple of what fills a line.
  constexpr std::int64_t kRows = 64, kColumns = 65536 + 192;
  std::vector<T> x;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i)
    x.push_back(T::from_bits(static_cast<std::uint16_t>(i % kColumns * 40503)));
  const Shape shape = {kRows, kColumns};
  const Strides dense = {kColumns, 1};
  expect_divided<s4>(x, shape, dense, PerChannel{0}, {kRows}, [](auto r, auto) { return r; });
  expect_divided<s4>(x, shape, dense, PerChannel{1}, {kColumns}, [](auto, auto c) { return c; });
  for (const std::int64_t run : {32, 64})
    expect_divided<s4>(x, shape, dense, PerGroup{run}, {kRows, kColumns / run},
                       [&](auto r, auto c) { return (r * kColumns + c) / run; });
  constexpr std::int64_t kEven = 65536;
  expect_divided<s4>(x, {kRows, kEven}, {kEven, 1}, PerGroup{128}, {kRows, kEven / 128},
                     [](auto r, auto c) { return (r * kEven + c) / 128; });
}

TEST(QuantizePacked, NibblesOfEveryF16) { nibbles_of_every_value<f16>(); }
TEST(QuantizePacked, NibblesOfEveryBf16) { nibbles_of_every_value<bf16>(); }

// Tiles that are whole and tiles that are cut off on either side.
template <class T, class Q>
void transposed_views() {
  for (const Shape& shape : {Shape{1100, 300}, Shape{70, 2200}, Shape{2048, 256}}) {
    std::vector<T> x;
    for (std::int64_t i = 0; i < numel(shape); ++i)
      x.push_back(T(static_cast<float>(i * 7919 % 4001) - 2000.0f));
    x[5] = T(__builtin_nanf(""));
    x[99] = T(-__builtin_inff());
    const Strides turned = {1, shape[0]};
    const std::int64_t rows = shape[0], columns = shape[1];
    expect_divided<Q>(x, shape, turned, PerChannel{0}, {rows}, [](auto r, auto) { return r; });
    expect_divided<Q>(x, shape, turned, PerChannel{1}, {columns}, [](auto, auto c) { return c; });
    expect_divided<Q>(x, shape, turned, PerGroup{columns / 2}, {rows, 2},
                      [&](auto r, auto c) { return 2 * r + c / (columns / 2); });
  }
}

TEST(QuantizeTransposed, Bytes) {
  transposed_views<float, std::int8_t>();
  transposed_views<bf16, std::int8_t>();
}
TEST(QuantizeTransposed, Nibbles) {
  transposed_views<float, s4>();
  transposed_views<f16, s4>();
}

}  // namespace
}  // namespace planck
