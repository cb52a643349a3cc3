// Holds the functions of 16-bit floats to the figures of narrow.h: every argument, against the C
// library's functions in long double.
#include "planck/math/narrow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace planck {
namespace {

using Exact = long double;

Exact sigmoid_exact(Exact x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
Exact silu_exact(Exact x) {
  if (std::isinf(x)) return x < 0 ? Exact(-0.0) : x;
  return x * sigmoid_exact(x);
}
Exact gelu_exact(Exact x) {
  if (std::isinf(x)) return x < 0 ? Exact(-0.0) : x;
  return x / 2 * std::erfc(-x * 0.707106781186547524400844362104849039L);
}

template <class T>
constexpr int kDigits = std::is_same_v<T, f16> ? 11 : 8;
template <class T>
constexpr int kLeast = std::is_same_v<T, f16> ? -13 : -125;  // exponent of the smallest normal, + 1
template <class T>
constexpr unsigned kInfinity = std::is_same_v<T, f16> ? 0x7c00 : 0x7f80;

// Units in the last place of T between a result and the exact value; a wrong special value, the
// wrong sign of a zero or a wrong overflow is infinitely many.
template <class T>
double error_of(T got, Exact want) {
  const double wrong = std::numeric_limits<double>::infinity();
  const auto value = static_cast<float>(got);
  const auto nearest = static_cast<float>(T(static_cast<double>(want)));
  if (want != want) return value != value ? 0 : wrong;
  if (std::isinf(value) || std::isinf(nearest)) return value == nearest ? 0 : wrong;
  if (std::signbit(value) != std::signbit(want)) return wrong;
  int exponent = 0;
  (void)std::frexp(want, &exponent);
  if (want == 0 || exponent < kLeast<T>) exponent = kLeast<T>;
  const Exact difference =
      (static_cast<Exact>(value) - want) / std::ldexp(Exact(1), exponent - kDigits<T>);
  return static_cast<double>(std::fabs(difference));
}

// From −Inf to Inf. `misses`: results that are not the nearest number.
template <class T>
void hold(const char* name, float (*function)(float), Exact (*exact)(Exact), bool monotone,
          int misses) {
  int missed = 0;
  double worst = 0;
  float before = -std::numeric_limits<float>::infinity();
  constexpr int kEnd = static_cast<int>(kInfinity<T>);
  for (int i = -kEnd - 1; i <= kEnd; ++i) {
    const auto bits = static_cast<std::uint16_t>(i < 0 ? 0x8000 + (-i - 1) : i);
    const auto x = static_cast<float>(T::from_bits(bits));
    const T got(function(x));
    const double error = error_of(got, exact(static_cast<Exact>(x)));
    worst = std::max(worst, error);
    missed += error > 0.5;
    const auto value = static_cast<float>(got);
    if (monotone && value == value) {
      EXPECT_GE(value, before) << name << " of " << x;
      before = value;
    }
  }
  EXPECT_LE(worst, 0.505) << name;
  EXPECT_LE(missed, misses) << name;
  for (unsigned bits = kInfinity<T> + 1; bits < 0x8000; ++bits) {
    const float nan = function(static_cast<float>(T::from_bits(static_cast<std::uint16_t>(bits))));
    EXPECT_NE(nan, nan) << name;
  }
}

#define PLANCK_OF(f) #f, [](float x) { return math::narrow::f<T>(x); }
#define PLANCK_LIBRARY(f) [](Exact x) { return std::f(x); }
template <class T>
void hold_all(const int (&misses)[7]) {
  hold<T>(PLANCK_OF(exp), PLANCK_LIBRARY(exp), true, misses[0]);
  hold<T>(PLANCK_OF(sigmoid), sigmoid_exact, true, misses[1]);
  hold<T>(PLANCK_OF(silu), silu_exact, false, misses[2]);
  hold<T>(PLANCK_OF(tanh), PLANCK_LIBRARY(tanh), true, misses[3]);
  hold<T>(PLANCK_OF(gelu), gelu_exact, false, misses[4]);
  hold<T>(PLANCK_OF(log), PLANCK_LIBRARY(log), true, misses[5]);
  hold<T>(PLANCK_OF(sin), PLANCK_LIBRARY(sin), false, misses[6]);
}
#undef PLANCK_OF
#undef PLANCK_LIBRARY

TEST(Narrow, EveryF16) { hold_all<f16>({4, 5, 1, 0, 41, 0, 2}); }
TEST(Narrow, EveryBf16) { hold_all<bf16>({0, 0, 0, 0, 1, 0, 0}); }

// Bases of every kind with exponents of every kind: within a unit, special values those of C99.
template <class T>
void hold_pow() {
  for (unsigned a = 0; a < 65536; a += 7)
    for (unsigned b = a % 1009; b < 65536; b += 1009) {
      const T x = T::from_bits(static_cast<std::uint16_t>(a)),
              y = T::from_bits(static_cast<std::uint16_t>(b));
      const float p = static_cast<float>(x), q = static_cast<float>(y);
      ASSERT_LE(error_of(T(math::narrow::pow<T>(p, q)),
                         std::pow(static_cast<Exact>(p), static_cast<Exact>(q))),
                0.6)
          << p << " to the power of " << q;
    }
}
// What packs of usual arguments are given on a GPU has the same bits.
template <class T>
void hold_usual_pow() {
  for (unsigned a = 1; a < 65536; a += 5)
    for (unsigned b = a % 997; b < 65536; b += 997) {
      const auto x = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(a)));
      const auto y = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(b)));
      const auto p = math::narrow::usual::power_of<T>(math::abs_of(x), y);
      if (math::usual::base_of(x) > math::usual::kBase ||
          !(math::abs_of(p.exponent) <= math::usual::kNear))
        continue;
      const float want = math::narrow::pow<T>(math::abs_of(x), y);
      ASSERT_EQ(math::bits_of(p.size), math::bits_of(want)) << x << " to the power of " << y;
    }
}
TEST(Narrow, UsualPowers) {
  hold_usual_pow<f16>();
  hold_usual_pow<bf16>();
}

TEST(Narrow, PowOfF16) { hold_pow<f16>(); }
TEST(Narrow, PowOfBf16) { hold_pow<bf16>(); }

}  // namespace
}  // namespace planck
