// The shortcuts of quantize.math.h and cpu/ordinary.cpp against true division: every 16-bit value,
// many scales, and the neighbourhood of every place where a result changes.
#include "planck/ops/quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "planck/core/allocator.h"
#include "planck/math/philox.h"
#include "planck/ops/quantize/quantize.math.h"
#include "planck/verify/run_plan.test.h"

namespace planck {
namespace {

namespace qm = quantize_math;

// Scales of any significand: the extreme ones, powers of two, and random others.
template <class T>
std::vector<T> scales(int count) {
  std::vector<T> all;
  for (float s : {1.0f, 0.5f, 0.1f, 3.0f, 0.0078125f, 1.9921875f, 1.00390625f, 7.0f})
    all.emplace_back(s);
  const int exponents = std::is_same_v<T, f16> ? 10 : 40;
  for (int k = 0; static_cast<int>(all.size()) < count; ++k) {
    const Philox4 words = PhiloxStream{7}.words(static_cast<std::uint64_t>(k));
    const auto& r = words.v;
    const float significand = 1.0f + static_cast<float>(r[0] % 2048) / 2048.0f;
    all.emplace_back(
        std::ldexp(significand, static_cast<int>(r[1] % (2 * exponents + 1)) - exponents));
  }
  return all;
}

template <class T>
std::vector<T> every_value() {
  std::vector<T> all;
  for (std::uint32_t b = 0; b < 65536; ++b)
    all.push_back(T::from_bits(static_cast<std::uint16_t>(b)));
  return all;
}

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}
template <class T>
T stored(float v) {
  return T(std::isnan(v) ? std::nanf("") : v);
}

// What each op must give for one element, by division.
struct Plain {
  float steps;
  bool inside;
};
Plain plain(float x, float s, std::int32_t z) {
  const double t = std::nearbyint(static_cast<double>(x / s));
  const bool nan = std::isnan(t);
  const double q = std::fmin(std::fmax((nan ? 0.0 : t) + z, -128.0), 127.0);
  return {static_cast<float>(q - z), !nan && t + z >= -128 && t + z <= 127};
}

// All values with all scales: a scale for every row, or for every column.
template <class T>
void every_value_and_scale(bool columns) {
  const std::vector<T> x = every_value<T>(), scale = scales<T>(160);
  const std::size_t n = x.size(), count = scale.size();
  std::vector<T> spread, shuffled, y(n * count), dx(n * count), masked(n * count);
  std::vector<std::int8_t> q(n * count);
  std::vector<std::int32_t> zero;
  for (std::size_t r = 0; r < count; ++r)
    zero.push_back(static_cast<std::int32_t>(r * 37 % 255) - 127);
  for (std::size_t i = 0; i < n * count; ++i) {
    spread.push_back(x[columns ? i / count : i % n]);
    shuffled.push_back(x[i * 40503 % n]);  // gradients in another order than x
  }
  const auto group_of = [&](std::size_t i) { return columns ? i % count : i / n; };
  const auto rows = static_cast<std::int64_t>(count), length = static_cast<std::int64_t>(n);
  const QuantDescriptor<PerChannel> d{.shape = columns ? Shape{length, rows} : Shape{rows, length},
                                      .groups = {columns ? 1 : 0}};
  const TensorView<const T> vx(spread.data(), d.shape), vdy(shuffled.data(), d.shape);
  const TensorView<const T> vs(scale.data(), {rows});
  const TensorView<const std::int32_t> vz(zero.data(), {rows});
  const TensorView<T> vy(y.data(), d.shape), vdx(dx.data(), d.shape), vm(masked.data(), d.shape);
  const TensorView<std::int8_t> vq(q.data(), d.shape);
  run<QuantizePerChannelPlan<T, std::int8_t>>(d, {vx, vs, vz, vq});
  run<FakeQuantizePerChannelPlan<T, std::int8_t>>(d, {vx, vs, vz, vy});
  run<QuantizePerChannelBackwardPlan<T, std::int8_t>>(d, {vdy, vx, vs, vz, vdx});
  run<FakeQuantizePerChannelBackwardPlan<T, std::int8_t>>(d, {vdy, vx, vs, vz, vm});
  int wrong = 0;
  for (std::size_t i = 0; i < y.size() && wrong < 10; ++i) {
    const std::size_t r = group_of(i);
    const float s = static_cast<float>(scale[r]), v = static_cast<float>(spread[i]);
    const float g = static_cast<float>(shuffled[i]);
    const Plain p = plain(v, s, zero[r]);
    const bool right = q[i] == static_cast<int>(p.steps) + zero[r] &&
                       same_bits(y[i], stored<T>(s * p.steps)) &&
                       same_bits(dx[i], stored<T>(p.inside ? g / s : 0.0f)) &&
                       same_bits(masked[i], stored<T>(p.inside ? g : 0.0f));
    if (right) continue;
    ++wrong;
    ADD_FAILURE() << "x " << v << ", dy " << g << ", scale " << s << ", zero point " << zero[r]
                  << ": q " << int(q[i]) << ", y " << static_cast<float>(y[i]) << ", dx "
                  << static_cast<float>(dx[i]) << ", masked " << static_cast<float>(masked[i]);
  }
}

TEST(QuantizeExact, EveryF16AndManyScales) {
  every_value_and_scale<f16>(false);
  every_value_and_scale<f16>(true);
}
TEST(QuantizeExact, EveryBf16AndManyScales) {
  every_value_and_scale<bf16>(false);
  every_value_and_scale<bf16>(true);
}

// The interval in range ends exactly where division says, for scales of all 24 bits.
TEST(QuantizeExact, TheEndsOfTheRange) {
  for (std::uint64_t k = 0; k < 200'000; ++k) {
    const Philox4 words = PhiloxStream{11}.words(k);
    const auto& r = words.v;
    const float s = std::ldexp(1.0f + static_cast<float>(r[0] >> 9) * 0x1p-23f,
                               static_cast<int>(r[1] % 119) - 59);
    const auto lo = static_cast<float>(static_cast<std::int32_t>(r[2] % (k % 2 ? 512 : 1 << 22)) -
                                       (k % 2 ? 256 : 1 << 21));
    const float hi = lo + static_cast<float>(r[3] % 256), inverse = 1.0f / s;
    const float first = qm::first_in_range(lo, s, inverse),
                last = qm::last_in_range(hi, s, inverse);
    const auto at = [&](float x) { return std::nearbyint(x / s); };
    ASSERT_GE(at(first), lo) << s;
    ASSERT_LT(at(std::nextafter(first, -INFINITY)), lo) << s;
    ASSERT_LE(at(last), hi) << s;
    ASSERT_GT(at(std::nextafter(last, INFINITY)), hi) << s;
  }
}

// Outputs past the caches are streamed from the start of a line on; groups end where they end, be
// the output aligned or not.
template <class Groups>
void aligned_or_not(Groups groups, Shape shape, std::int64_t count) {
  const std::int64_t n = numel(shape);
  std::vector<float> x, scale;
  for (std::int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(i * 7919 % 4001) - 2000.0f);
  for (std::int64_t g = 0; g < count; ++g) scale.push_back(5.0f + static_cast<float>(g % 97));
  const std::vector<std::int32_t> zero(static_cast<std::size_t>(count), 3);
  std::vector<std::int8_t> q(static_cast<std::size_t>(n) + 128);
  const auto base = reinterpret_cast<std::uintptr_t>(q.data());
  std::int8_t* line = q.data() + (64 - base % 64) % 64;
  std::vector<std::int8_t> first;
  for (const int offset : {0, 5, 37}) {
    run<QuantizePlan<Groups, float, std::int8_t>>({.shape = shape, .groups = groups},
                                                  {{x.data(), shape},
                                                   {scale.data(), {count}},
                                                   {zero.data(), {count}},
                                                   {line + offset, shape}});
    const std::vector<std::int8_t> now(line + offset, line + offset + n);
    if (offset == 0) first = now;
    EXPECT_TRUE(now == first) << "output " << offset << " bytes into a line";
  }
  int wrong = 0;
  for (std::int64_t i = 0; i < n; i += 1021) {
    std::int64_t g = i / 32;
    if constexpr (std::is_same_v<Groups, PerChannel>)
      g = groups.axis == 0 ? i / shape[1] : i % shape[1];
    const auto k = static_cast<std::size_t>(i);
    const Plain p = plain(x[k], scale[static_cast<std::size_t>(g)], 3);
    wrong += first[k] == static_cast<int>(p.steps) + 3 ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(QuantizeExact, LargeOutputsAnywhereInALine) {
  aligned_or_not(PerGroup{32}, {4096, 2112}, 4096 * 2112 / 32);
  aligned_or_not(PerChannel{0}, {4096, 2112}, 4096);
  aligned_or_not(PerChannel{1}, {4096, 2112}, 2112);
}

}  // namespace
}  // namespace planck
