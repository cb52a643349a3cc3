// Trials of tensor cores, on the host: what they reach, and that they tell parts apart. The
// contract and other parts are computed here in f64, where every term, cut and sum is exact.
#include "planck/loops/gemm/trials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "planck/core/half.h"

namespace planck::gemm {
namespace {

using math::bits_of;
using math::tensor_core::Bf16;
using math::tensor_core::F16;
using math::tensor_core::Tf32;

template <class Format>
double number(typename Format::Bits bits) {
  if constexpr (std::is_same_v<Format, Bf16>) return static_cast<double>(bf16::from_bits(bits));
  if constexpr (std::is_same_v<Format, F16>) return static_cast<double>(f16::from_bits(bits));
  if constexpr (std::is_same_v<Format, Tf32>)
    return static_cast<double>(math::from_bits(bits & 0xffffe000u));
}

// What a part's tensor cores do.
struct Part {
  int kept = 25;                // bits below the largest exponent
  int products = 16;            // that are added at once
  bool normalized = false;      // exponents are those of products, not sums of factors'
  bool nearest = false;         // the sum is rounded to nearest even
  bool flushes = false;         // subnormal factors are zero
  bool rounds_factors = false;  // TF32: to nearest, not cut
};

float rounded(double x, bool nearest) {
  if (nearest) return static_cast<float>(x);
  constexpr double kMost = std::numeric_limits<float>::max();
  if (std::abs(x) >= 0x1p128) return std::copysign(HUGE_VALF, x > 0 ? 1.0f : -1.0f);
  const auto near = static_cast<float>(std::clamp(x, -kMost, kMost));
  return std::abs(static_cast<double>(near)) > std::abs(x) ? std::nextafterf(near, 0.0f) : near;
}

template <class Format>
float block(const Part& part, float c, const typename Format::Bits* a,
            const typename Format::Bits* b) {
  constexpr int kLeast = std::is_same_v<Format, F16> ? -14 : -126;
  const auto value = [&](typename Format::Bits bits) {
    if (std::is_same_v<Format, Tf32> && part.rounds_factors)
      bits = static_cast<typename Format::Bits>(bits + 0x1000);
    const double x = number<Format>(bits);
    return part.flushes && std::abs(x) < std::ldexp(1.0, kLeast) ? 0.0 : x;
  };
  const auto exponent = [](double x, int least) { return std::max(std::ilogb(x), least); };
  for (int first = 0; first < Format::kBlock; first += part.products) {
    const int end = std::min(first + part.products, Format::kBlock);
    double plain = static_cast<double>(c), sum = 0;
    int largest = c != 0 ? exponent(static_cast<double>(c), -126) : -133;
    for (int i = first; i < end; ++i) {
      const double x = value(a[i]), y = value(b[i]), xy = x * y;
      plain += std::isfinite(x) && std::isfinite(y) ? 0 : xy;
      if (xy == 0 || !std::isfinite(xy)) continue;
      largest = std::max(largest, part.normalized ? exponent(xy, -1000)
                                                  : exponent(x, kLeast) + exponent(y, kLeast));
    }
    if (!std::isfinite(plain)) {
      c = static_cast<float>(plain);
      continue;
    }
    const auto cut = [&](double term) { return std::trunc(std::ldexp(term, part.kept - largest)); };
    sum = cut(static_cast<double>(c));
    for (int i = first; i < end; ++i) sum += cut(value(a[i]) * value(b[i]));
    c = rounded(std::ldexp(sum, largest - part.kept), part.nearest) + 0.0f;  // a zero is +0
  }
  return c;
}

bool same(float x, float y) { return std::isnan(x) ? std::isnan(y) : bits_of(x) == bits_of(y); }

// f(trial, c, a, b) for every fifth output of the first trials, twice each kind of numbers.
template <class Format, class F>
void each_output(F&& f) {
  for (std::uint64_t n = 0; n < 2 * kKindsOfNumbers; ++n) {
    const Trial t{7, n};
    const auto line = [&](Trial::What side, int at) {
      std::vector<typename Format::Bits> factors(Format::kBlock);
      for (int k = 0; k < t.products<Format>(); ++k)
        factors[static_cast<std::size_t>(k)] = factor<Format>(t, side, at, k);
      return factors;
    };
    for (int output = static_cast<int>(n % 5); output < Trial::kOutputs; output += 5) {
      const int row = output / Trial::kColumns, column = output % Trial::kColumns;
      const auto a = line(Trial::What::a, row), b = line(Trial::What::b, column);
      f(t, start<Format>(t, row, column, a[0], b[0]), a.data(), b.data());
    }
  }
}
template <class Format>
float contract(float c, const typename Format::Bits* a, const typename Format::Bits* b) {
  return math::tensor_core::add_products<Format>(c, a, 1, b, 1, Format::kBlock);
}

template <class Format>
class Trials : public testing::Test {};
using Formats = testing::Types<Bf16, F16, Tf32>;
TYPED_TEST_SUITE(Trials, Formats);

TYPED_TEST(Trials, ReachEveryKindOfResult) {
  int nan = 0, positive = 0, negative = 0, zero = 0, subnormal = 0, negative_c = 0, all = 0;
  int by_numbers[kKindsOfNumbers] = {};
  each_output<TypeParam>([&](const Trial& t, float c, const auto* a, const auto* b) {
    const float sum = contract<TypeParam>(c, a, b);
    ASSERT_TRUE(same(sum, block<TypeParam>(Part{}, c, a, b))) << name(t.numbers());
    ++all, ++by_numbers[static_cast<int>(t.numbers())];
    nan += std::isnan(sum), zero += bits_of(sum) == 0;
    positive += sum == HUGE_VALF, negative += sum == -HUGE_VALF;
    subnormal += std::fpclassify(sum) == FP_SUBNORMAL;
    negative_c += std::signbit(c);
  });
  for (int i = 0; i < kKindsOfNumbers; ++i)
    EXPECT_GT(by_numbers[i], 800) << name(static_cast<Numbers>(i));
  for (const int count : {nan, positive, negative, zero, subnormal}) EXPECT_GT(count, 20);
  EXPECT_GT(negative_c, all / 3);
  EXPECT_LT(nan + positive + negative + zero, all / 2);  // most are ordinary
}

TYPED_TEST(Trials, TellOtherPartsApart) {
  constexpr bool kTf32 = std::is_same_v<TypeParam, Tf32>;
  const int half = TypeParam::kBlock / 2;
  struct Other {
    const char* what;
    Part part;
  };
  std::vector<Other> others = {
      {"24 bits", {.kept = 24}},
      {"26 bits", {.kept = 26}},
      {"half a block at once", {.products = half}},
      {"24 bits, half a block at once", {.kept = 24, .products = half}},
      {"exponents of normalized products", {.normalized = true}},
      {"the sum rounded to nearest", {.nearest = true}},
      {"subnormal factors are zero", {.flushes = true}},
  };
  if (kTf32) others.push_back({"factors rounded to nearest", {.rounds_factors = true}});
  for (const Other& other : others) {
    int all = 0, differing = 0;
    each_output<TypeParam>([&](const Trial&, float c, const auto* a, const auto* b) {
      ++all,
          differing += !same(contract<TypeParam>(c, a, b), block<TypeParam>(other.part, c, a, b));
    });
    EXPECT_GT(differing, all / 100) << other.what;
  }
}

}  // namespace
}  // namespace planck::gemm
