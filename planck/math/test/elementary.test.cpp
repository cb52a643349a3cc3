// Holds the elementary functions to the errors that elementary.h states. f32 is compared with the C
// library's f64 functions, f64 with 113-bit ones; neither shares code with ours.
#include "planck/math/elementary.h"

#include <gtest/gtest.h>
#include <quadmath.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "planck/math/philox.h"

namespace planck {
namespace {

using Wide = __float128;
constexpr Wide kRootHalf = static_cast<Wide>(0x1.6a09e667f3bcdp-1) +
                           static_cast<Wide>(-0x1.bdd3413b26456p-55) +
                           static_cast<Wide>(0x1.57d3e3adec175p-109);

double silu64(double x) {
  if (std::isinf(x)) return x < 0 ? -0.0 : x;
  return x < 0 ? x * std::exp(x) / (1 + std::exp(x)) : x / (1 + std::exp(-x));
}
Wide silu128(Wide x) {
  if (isinfq(x)) return x < 0 ? -static_cast<Wide>(0) : x;
  return x < 0 ? x * expq(x) / (1 + expq(x)) : x / (1 + expq(-x));
}
double sigmoid64(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
Wide sigmoid128(Wide x) { return x < 0 ? expq(x) / (1 + expq(x)) : 1 / (1 + expq(-x)); }
double softplus64(double x) {
  return x != x ? x : std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
}
Wide softplus128(Wide x) { return (x > 0 ? x : 0) + log1pq(expq(-fabsq(x))); }
double gelu64(double x) {
  return std::isinf(x) && x < 0 ? -0.0 : 0.5 * x * std::erfc(-x * 0.70710678118654752440);
}
Wide gelu128(Wide x) {
  return isinfq(x) && x < 0 ? -static_cast<Wide>(0) : x / 2 * erfcq(-x * kRootHalf);
}
double rsqrt64(double x) { return 1 / std::sqrt(x); }
Wide rsqrt128(Wide x) { return 1 / sqrtq(x); }

struct Function {
  const char* name;
  float (*f32)(float);
  double (*f64)(double);
  double (*reference32)(double);
  Wide (*reference64)(Wide);
  double bound32, bound64;
  double low, high;  // where f64 is sampled most
};

void PrintTo(const Function& f, std::ostream* out) { *out << f.name; }

#define PLANCK_PAIR(f) [](float x) { return math::f(x); }, [](double x) { return math::f(x); }
#define PLANCK_LIBRARY(f) [](double x) { return std::f(x); }, [](Wide x) { return f##q(x); }
const Function kFunctions[] = {
    {"exp", PLANCK_PAIR(exp), PLANCK_LIBRARY(exp), 1.1, 1.1, -746, 711},
    {"expm1", PLANCK_PAIR(expm1), PLANCK_LIBRARY(expm1), 1.7, 1.8, -40, 711},
    {"log", PLANCK_PAIR(log), PLANCK_LIBRARY(log), 1.0, 1.0, 0, 10},
    {"log1p", PLANCK_PAIR(log1p), PLANCK_LIBRARY(log1p), 1.6, 1.6, -1, 10},
    {"sin", PLANCK_PAIR(sin), PLANCK_LIBRARY(sin), 1.6, 1.6, -100, 100},
    {"cos", PLANCK_PAIR(cos), PLANCK_LIBRARY(cos), 1.6, 1.6, -100, 100},
    {"tanh", PLANCK_PAIR(tanh), PLANCK_LIBRARY(tanh), 1.4, 1.5, -4, 4},
    {"erf", PLANCK_PAIR(erf), PLANCK_LIBRARY(erf), 1.3, 1.3, -6, 6},
    {"sigmoid", PLANCK_PAIR(sigmoid), sigmoid64, sigmoid128, 2.5, 2.5, -746, 40},
    {"silu", PLANCK_PAIR(silu), silu64, silu128, 3.5, 3.5, -760, 40},
    {"softplus", PLANCK_PAIR(softplus), softplus64, softplus128, 1.9, 1.9, -746, 40},
    {"gelu", PLANCK_PAIR(gelu), gelu64, gelu128, 5.0, 5.0, -39, 9},
    {"rsqrt", PLANCK_PAIR(rsqrt), rsqrt64, rsqrt128, 1.5, 1.5, 0, 10},
};

// Units in the last place between a result and the exact value; infinite where a special value, the
// sign of a zero or the bits of a NaN are wrong.
template <class T, class W>
double error_of(T got, W want) {
  const double wrong = std::numeric_limits<double>::infinity();
  if (want != want) return math::bits_of(got) == math::bits_of(math::nan_of(got)) ? 0 : wrong;
  const T nearest = static_cast<T>(want);
  if (std::isinf(nearest) || std::isinf(got)) return nearest == got ? 0 : wrong;
  if (got == 0 && nearest == 0) return std::signbit(got) == std::signbit(nearest) ? 0 : wrong;
  using Limits = std::numeric_limits<T>;
  const T power = math::from_bits(math::bits_of(nearest) & math::bits_of(Limits::infinity()));
  const T unit = std::max(power * Limits::epsilon(), Limits::denorm_min());
  return std::fabs(static_cast<double>((static_cast<W>(got) - want) / static_cast<W>(unit)));
}

struct Worst {
  double error = 0, at = 0;
  void add(double e, double x) {
    if (e > error) *this = {e, x};
  }
};

Worst worst_f32(const Function& f, std::uint64_t begin, std::uint64_t end, std::uint64_t step) {
  Worst worst;
  for (std::uint64_t b = begin; b < end; b += step) {
    const float x = math::from_bits(static_cast<std::uint32_t>(b));
    worst.add(error_of(f.f32(x), f.reference32(static_cast<double>(x))), static_cast<double>(x));
  }
  return worst;
}

double as_f64(std::uint32_t high, std::uint32_t low) {
  return math::from_bits(static_cast<std::uint64_t>(high) << 32 | low);
}

// Any bits, a range, and the same brought nearer to zero.
double sample(const PhiloxStream& random, std::uint64_t i, double low, double high) {
  const Philox4 r = random.words(i);
  if (i % 4 == 0) return as_f64(r.v[0], r.v[1]);
  const double x = low + (high - low) * static_cast<double>(r.v[0]) * 0x1p-32 +
                   (high - low) * 0x1p-32 * static_cast<double>(r.v[1]) * 0x1p-32;
  return i % 4 == 1 ? std::ldexp(x, -static_cast<int>(r.v[2] % 60)) : x;
}

class Elementary : public testing::TestWithParam<Function> {};

TEST_P(Elementary, ErrorInF32) {
  Worst worst = worst_f32(GetParam(), 0, std::uint64_t{1} << 32, 4099);
  for (const float sign : {1.0f, -1.0f}) {  // more closely where most functions curve
    const Worst w = worst_f32(GetParam(), math::bits_of(sign / 64), math::bits_of(sign * 64), 61);
    worst.add(w.error, w.at);
  }
  // The worst arguments of all for sigmoid, silu, erf and gelu, which no such step meets.
  for (const float x : {-4.1572938f, -5.93889332f, 1.05638969f, -0x1.5ee8eap3f})
    worst.add(error_of(GetParam().f32(x), GetParam().reference32(static_cast<double>(x))),
              static_cast<double>(x));
  EXPECT_LE(worst.error, GetParam().bound32) << "at " << worst.at;
}

TEST_P(Elementary, ErrorInF64) {
  const Function& f = GetParam();
  Worst worst;
  for (std::uint64_t i = 0; i < 40000; ++i) {
    const double x = sample({7, 1}, i, f.low, f.high);
    worst.add(error_of(f.f64(x), f.reference64(x)), x);
  }
  EXPECT_LE(worst.error, f.bound64) << "at " << worst.at;
}

TEST_P(Elementary, SpecialValues) {
  const Function& f = GetParam();
  const double inf = std::numeric_limits<double>::infinity();
  for (double x : {0.0, -0.0, 1.0, -1.0, inf, -inf, std::nan(""), -std::nan("7"), 0x1p-149,
                   -0x1p-149, 0x1.fffffep127, -0x1.fffffep127}) {
    const auto narrow = static_cast<float>(x);
    EXPECT_LE(error_of(f.f32(narrow), f.reference32(x)), f.bound32) << x;
    EXPECT_LE(error_of(f.f64(x), f.reference64(x)), f.bound64) << x;
  }
  for (double x : {0x1p-1074, -0x1p-1074, std::numeric_limits<double>::max(),
                   -std::numeric_limits<double>::max()})
    EXPECT_LE(error_of(f.f64(x), f.reference64(x)), f.bound64) << x;
}

std::string name_of(const testing::TestParamInfo<Function>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Math, Elementary, testing::ValuesIn(kFunctions), name_of);

// Every f32 there is.
class LongElementary : public testing::TestWithParam<Function> {};
TEST_P(LongElementary, EveryF32) {
  const Function& f = GetParam();
  std::atomic<std::uint64_t> next = 0;
  std::vector<Worst> worst(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (Worst& mine : worst)
    threads.emplace_back([&] {
      for (std::uint64_t k; (k = next++) < 1024;) {
        const Worst w = worst_f32(f, k << 22, (k + 1) << 22, 1);
        mine.add(w.error, w.at);
      }
    });
  for (std::thread& t : threads) t.join();
  for (const Worst& w : worst) EXPECT_LE(w.error, f.bound32) << "at " << w.at;
}
INSTANTIATE_TEST_SUITE_P(LongMath, LongElementary, testing::ValuesIn(kFunctions), name_of);

// ---- two arguments
template <class T>
double worst_of_two(T (*f)(T, T), Wide (*reference)(Wide, Wide), T range) {
  const T inf = std::numeric_limits<T>::infinity(), huge = std::numeric_limits<T>::max();
  const T special[] = {0,
                       -T(0),
                       1,
                       -1,
                       2,
                       -2,
                       3,
                       -3,
                       T(0.5),
                       -T(0.5),
                       inf,
                       -inf,
                       T(1e30),
                       T(-1e30),
                       T(1e-30),
                       -huge,
                       huge,
                       16777216,
                       16777215,
                       8388607,
                       T(2.5),
                       -T(2.5),
                       1 / huge,
                       std::numeric_limits<T>::denorm_min(),
                       std::numeric_limits<T>::quiet_NaN()};
  Worst worst;
  const auto one = [&](T x, T y) {
    worst.add(error_of(f(x, y), reference(x, y)), static_cast<double>(x));
  };
  for (T x : special)
    for (T y : special) one(x, y);
  const PhiloxStream random{11, 2};
  const auto any = [](std::uint32_t a, std::uint32_t b) {
    if constexpr (sizeof(T) == 4)
      return math::from_bits(a);
    else
      return as_f64(a, b);
  };
  for (std::uint64_t i = 0; i < 60000; ++i) {
    const Philox4 r = random.words(i);
    const T u = static_cast<T>(uniform01(r.v[0])), v = static_cast<T>(uniform01(r.v[1])) - T(0.5);
    if (i % 3 == 0) one(any(r.v[0], r.v[1]), any(r.v[2], r.v[3]));
    if (i % 3 == 1) one(u * 4, v * range);
    if (i % 3 == 2) one(std::exp2((u - T(0.5)) * range), v * 8);
  }
  return worst.error;
}

TEST(Math, PowError) {
  EXPECT_LE(worst_of_two<float>([](float a, float b) { return math::pow(a, b); }, powq, 200), 1.3);
  EXPECT_LE(worst_of_two<double>([](double a, double b) { return math::pow(a, b); }, powq, 1500),
            1.3);
}
// Where y multiplies the error of the logarithm most: |y log2 x| < 126, near 1 and anywhere.
TEST(Math, PowErrorOfLargeExponents) {
  const PhiloxStream random{12, 2};
  Worst worst;
  const auto one = [&](float x, double exponent) {
    const auto y = static_cast<float>(exponent / std::log2(static_cast<double>(x)));
    worst.add(error_of(math::pow(x, y), powq(x, y)), static_cast<double>(x));
  };
  for (std::uint64_t i = 0; i < 60000; ++i) {
    const Philox4 r = random.words(i);
    const double u = uniform01(r.v[0]), v = uniform01(r.v[1]), exponent = 252 * v - 126;
    if (i % 3 == 0) one(static_cast<float>(1.01 + 0.4 * u), exponent);
    if (i % 3 == 1) one(static_cast<float>(1 - std::exp2(-2 - 20 * u)), exponent);
    if (i % 3 == 2) one(static_cast<float>(std::exp2(250 * u - 125)), exponent);
  }
  EXPECT_LE(worst.error, 1.3) << "at " << worst.at;
}
TEST(Math, Atan2Error) {
  EXPECT_LE(worst_of_two<float>([](float a, float b) { return math::atan2(a, b); }, atan2q, 200),
            1.8);
  EXPECT_LE(
      worst_of_two<double>([](double a, double b) { return math::atan2(a, b); }, atan2q, 1500),
      2.4);
}

}  // namespace
}  // namespace planck
