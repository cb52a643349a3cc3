// What a kernel's dispatch finds is what cpu_target_name() says, also when the tests run with
// --cpu_target.
#include "planck/core/cpu/target.h"

#include <cstdint>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/core/test/target.test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
std::int64_t compiled_for() { return HWY_TARGET; }
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

namespace planck {
namespace {

HWY_EXPORT(compiled_for);

TEST(CpuTarget, IsWhatKernelsRunOn) {
  const std::string_view name = cpu_target_name();
  const std::int64_t found = HWY_DYNAMIC_DISPATCH(compiled_for)();
  if (name == "avx512" && (HWY_TARGETS & HWY_AVX3) != 0)  // sanitized builds leave it out
    EXPECT_EQ(found, HWY_AVX3);
  else if (name != "baseline")
    EXPECT_EQ(found, HWY_AVX2);
  else
    EXPECT_EQ(found & (HWY_AVX2 | HWY_AVX3), 0);
}

}  // namespace
}  // namespace planck
#endif
