#include "planck/core/cpu_target.h"

#include <hwy/targets.h>

namespace planck {

std::string_view cpu_target_name() {
  const auto supported = hwy::SupportedTargets();
  if (supported & HWY_AVX3) return "avx512";
  if (supported & HWY_AVX2) return "avx2";
  return "baseline";
}

}  // namespace planck
