#include "planck/verify/cpu_targets.h"

#include <string>

#include "planck/core/cpu/target.h"

namespace planck::verify {

Result<void> restrict_cpu_target(std::string_view target) {
  if (target != "avx512" && target != "avx2" && target != "baseline")
    return fail(ErrorCode::invalid_problem,
                std::string(target) + " is not avx512, avx2 or baseline");
  if (limit_cpu_target(target)) return {};
  return fail(ErrorCode::unsupported, "this CPU has no " + std::string(target) + ", its best is " +
                                          std::string(cpu_target_name()));
}

}  // namespace planck::verify
