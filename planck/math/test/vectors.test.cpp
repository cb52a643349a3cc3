// Holds the vector functions of elementary-inl.h and narrow-inl.h to the bits of elementary.h and
// narrow.h, on the instruction set in force (--cpu_target).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "planck/core/cpu/target.h"
#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/math/test/vectors.test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/math/narrow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

#if PLANCK_VECTOR_MATH
using vector_math::V;
bool near(float x) { return !math::far_from_zero(x); }
bool normal(float x) { return !(x > 0 && x < 0x1p-126f); }
bool any(float) { return true; }

// Every step-th float of the domain, from `first` to below `last`.
template <class F>
std::string first_difference(const char* name, std::uint64_t first, std::uint64_t last,
                             std::uint64_t step, bool (*domain)(float), float (*want)(float),
                             const F& function) {
  constexpr int kLanes = vector_math::kLanes;
  alignas(64) float x[kLanes], y[kLanes];
  for (std::uint64_t b = first; b < last; b += step * kLanes) {
    for (int i = 0; i < kLanes; ++i)
      x[i] = math::from_bits(static_cast<std::uint32_t>(b + step * static_cast<unsigned>(i)));
    vector_math::hn::Store(
        vector_math::canonical(function(vector_math::hn::Load(vector_math::D(), x))),
        vector_math::D(), y);
    for (int i = 0; i < kLanes; ++i)
      if (domain(x[i]) && math::bits_of(y[i]) != math::bits_of(math::canonical(want(x[i]))))
        return std::string(name) + "(" + std::to_string(x[i]) + ") is " + std::to_string(y[i]) +
               " instead of " + std::to_string(want(x[i]));
  }
  return "";
}

#define PLANCK_DIFFERENCE(domain, vectors, scalar)                                  \
  first_difference(                                                                 \
      #vectors, first, last, step, domain, [](float x) { return math::scalar(x); }, \
      [](V x) HWY_ATTR { return vector_math::vectors(x); })

// f64, at every step-th of the upper halves and some lower ones.
std::string wide_difference(std::uint64_t step) {
  const vector_math::hn::ScalableTag<double> d;
  constexpr int kLanes = static_cast<int>(vector_math::hn::MaxLanes(d));
  alignas(64) double x[kLanes], y[kLanes];
  for (std::uint64_t b = 0; b < std::uint64_t{1} << 32; b += step * kLanes) {
    for (int i = 0; i < kLanes; ++i) {
      const std::uint64_t top = b + step * static_cast<unsigned>(i);
      x[i] = math::from_bits(top << 32 | (top * 2654435761u & 0xffffffffu));
    }
    vector_math::hn::Store(vector_math::exp(vector_math::hn::Load(d, x)), d, y);
    for (int i = 0; i < kLanes; ++i)
      if (math::bits_of(math::canonical(y[i])) != math::bits_of(math::exp(x[i])))
        return "exp(" + std::to_string(x[i]) + ") is " + std::to_string(y[i]);
  }
  return "";
}

// Every number of T.
template <class T>
std::string narrow_difference() {
  namespace vn = vector_math::narrow;
  std::string found;
  const auto hold = [&](const char* name, bool (*domain)(float), float (*want)(float),
                        const auto& function) {
    if (!found.empty()) return;
    constexpr int kLanes = vector_math::kLanes;
    alignas(64) float x[kLanes], y[kLanes];
    for (unsigned b = 0; b < 65536; b += kLanes) {
      for (unsigned i = 0; i < kLanes; ++i)
        x[i] = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(b + i)));
      vector_math::hn::Store(
          vector_math::canonical(function(vector_math::hn::Load(vector_math::D(), x))),
          vector_math::D(), y);
      for (int i = 0; i < kLanes; ++i)
        if (domain(x[i]) && math::bits_of(y[i]) != math::bits_of(math::canonical(want(x[i]))))
          found = std::string(name) + "(" + std::to_string(x[i]) + ") is " + std::to_string(y[i]) +
                  " instead of " + std::to_string(want(x[i]));
    }
  };
#define PLANCK_HOLD(domain, vectors, scalar)                                \
  hold(                                                                     \
      #vectors, domain, [](float x) { return math::narrow::scalar<T>(x); }, \
      [](V x) HWY_ATTR { return vn::vectors(x); })
  PLANCK_HOLD(any, exp<T>, exp);
  PLANCK_HOLD(any, sigmoid<T>, sigmoid);
  PLANCK_HOLD(any, silu<T>, silu);
  PLANCK_HOLD(any, tanh<T>, tanh);
  PLANCK_HOLD(any, gelu<T>, gelu);
  PLANCK_HOLD(normal, log_of_normal, log);
  PLANCK_HOLD(near, sin_near, sin);
#undef PLANCK_HOLD
  return found;
}
#endif

// Empty where all agree.
std::string difference([[maybe_unused]] std::uint64_t first, [[maybe_unused]] std::uint64_t last,
                       [[maybe_unused]] std::uint64_t step) {
#if PLANCK_VECTOR_MATH
  for (const std::string& found :
       {PLANCK_DIFFERENCE(any, exp, exp), PLANCK_DIFFERENCE(any, tanh, tanh),
        PLANCK_DIFFERENCE(any, sigmoid, sigmoid), PLANCK_DIFFERENCE(any, silu, silu),
        PLANCK_DIFFERENCE(any, gelu, gelu), PLANCK_DIFFERENCE(normal, log_of_normal, log),
        PLANCK_DIFFERENCE(near, sin_near, sin)})
    if (!found.empty()) return found;
  return wide_difference(step);
#else
  return "";
#endif
}
std::string difference_of_halves() {
#if PLANCK_VECTOR_MATH
  const std::string found = narrow_difference<f16>();
  return found.empty() ? narrow_difference<bf16>() : found;
#else
  return "";
#endif
}

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {
namespace {

HWY_EXPORT(difference);
HWY_EXPORT(difference_of_halves);

constexpr std::uint64_t kFloats = std::uint64_t{1} << 32;

std::string difference(std::uint64_t first, std::uint64_t last, std::uint64_t step) {
  cpu_target_name();  // puts --cpu_target in force
  return HWY_DYNAMIC_DISPATCH(difference)(first, last, step);
}

TEST(Vectors, BitsOfTheFunctions) { EXPECT_EQ(difference(0, kFloats, 4099), ""); }

TEST(Vectors, BitsOfEvery16BitNumber) {
  cpu_target_name();
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(difference_of_halves)(), "");
}

// Around 0, 1, the ends of the ranges, infinities and NaN.
TEST(Vectors, BitsAtSpecialValues) {
  for (std::uint64_t top = 0; top < 1 << 16; top += 64)
    EXPECT_EQ(difference(top << 16, kFloats, std::uint64_t{1} << 30), "") << top;
}

TEST(LongVectors, BitsOfEveryF32) {
  constexpr std::uint64_t kPart = kFloats / 1024;
  std::atomic<std::uint64_t> next = 0;
  std::vector<std::string> found(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (std::string& mine : found)
    threads.emplace_back([&] {
      for (std::uint64_t k; mine.empty() && (k = next++) < kFloats / kPart;)
        mine = difference(k * kPart, (k + 1) * kPart, 1);
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& f : found) EXPECT_EQ(f, "");
}

}  // namespace
}  // namespace planck
#endif
