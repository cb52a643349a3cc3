// Holds the vector functions of elementary-inl.h to the bits of elementary.h, on every instruction
// set of this CPU that has them.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "planck/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/math/vectors.test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/math/elementary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

#if PLANCK_VECTOR_MATH
// Every step-th float, from `first` on.
template <class F>
std::string first_difference(const char* name, std::uint64_t first, std::uint64_t step,
                             float (*want)(float), const F& function) {
  constexpr int kLanes = vector_math::kLanes;
  alignas(64) float x[kLanes], y[kLanes];
  for (std::uint64_t b = first; b < std::uint64_t{1} << 32; b += step * kLanes) {
    for (int i = 0; i < kLanes; ++i)
      x[i] = math::from_bits(static_cast<std::uint32_t>(b + step * static_cast<unsigned>(i)));
    vector_math::hn::Store(function(vector_math::hn::Load(vector_math::D(), x)), vector_math::D(),
                           y);
    for (int i = 0; i < kLanes; ++i)
      if (math::bits_of(y[i]) != math::bits_of(math::canonical(want(x[i]))))
        return std::string(name) + "(" + std::to_string(x[i]) + ") is " + std::to_string(y[i]) +
               " instead of " + std::to_string(want(x[i]));
  }
  return "";
}

#define PLANCK_DIFFERENCE(f)                               \
  first_difference(                                        \
      #f, first, step, [](float x) { return math::f(x); }, \
      [](vector_math::V x) HWY_ATTR { return vector_math::f(x); })
#endif

// Empty where all agree.
std::string difference([[maybe_unused]] std::uint64_t first, [[maybe_unused]] std::uint64_t step) {
#if PLANCK_VECTOR_MATH
  for (const std::string& found :
       {PLANCK_DIFFERENCE(exp), PLANCK_DIFFERENCE(tanh), PLANCK_DIFFERENCE(sigmoid),
        PLANCK_DIFFERENCE(silu), PLANCK_DIFFERENCE(gelu)})
    if (!found.empty()) return found;
#endif
  return "";
}

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {
namespace {

HWY_EXPORT(difference);

constexpr std::int64_t kAvx512 = HWY_AVX3 | (HWY_AVX3 - 1);  // better targets have lower bits

std::string on_every_target(std::uint64_t first, std::uint64_t step) {
  std::string found;
  for (const std::int64_t without : {std::int64_t{0}, kAvx512}) {
    hwy::DisableTargets(without);
    if (found.empty()) found = HWY_DYNAMIC_DISPATCH(difference)(first, step);
  }
  hwy::DisableTargets(0);
  return found;
}

TEST(Vectors, BitsOfTheFunctions) { EXPECT_EQ(on_every_target(0, 4099), ""); }
TEST(LongVectors, BitsOfEveryF32) { EXPECT_EQ(on_every_target(0, 1), ""); }

// Around 0, 1, the ends of the ranges, infinities and NaN.
TEST(Vectors, BitsAtSpecialValues) {
  for (std::uint64_t top = 0; top < 1 << 16; top += 64)
    EXPECT_EQ(on_every_target(top << 16, std::uint64_t{1} << 30), "") << top;
}

}  // namespace
}  // namespace planck
#endif
