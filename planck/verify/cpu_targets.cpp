#include "planck/verify/cpu_targets.h"

#include <hwy/targets.h>

#include <string>

#include "planck/core/cpu_target.h"

namespace planck::verify {

Result<void> restrict_cpu_target(std::string_view target) {
  constexpr auto kAvx512 = HWY_AVX3 | (HWY_AVX3 - 1);  // better targets have lower bits
  constexpr auto kAvx2 = HWY_AVX2 | (HWY_AVX2 - 1);
  if (target == "avx2")
    hwy::DisableTargets(kAvx512);
  else if (target == "baseline")
    hwy::DisableTargets(kAvx2);
  else if (target != "avx512")
    return fail(ErrorCode::invalid_problem,
                std::string(target) + " is not avx512, avx2 or baseline");
  if (cpu_target_name() == target) return {};
  return fail(ErrorCode::unsupported, "this CPU has no " + std::string(target) + ", its best is " +
                                          std::string(cpu_target_name()));
}

}  // namespace planck::verify
