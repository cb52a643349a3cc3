#include "planck/core/cpu/target.h"

#include <hwy/targets.h>

#include <atomic>
#include <cstdint>

namespace planck {
namespace {

// Highway 1.0's SupportedTargets() also puts disabled targets back into force, for the next
// dispatch: so it is called here alone, and what it returned is put into force afterwards.
std::int64_t find_targets() {
  const std::int64_t targets = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(targets);
  return targets;
}

std::atomic<std::int64_t>& targets() {
  static std::atomic<std::int64_t> found = find_targets();
  return found;
}

}  // namespace

std::string_view cpu_target_name() {
  const std::int64_t supported = targets();
  if (supported & HWY_AVX3) return "avx512";
  if (supported & HWY_AVX2) return "avx2";
  return "baseline";
}

bool limit_cpu_target(std::string_view target) {
  if (target == "avx2")  // better targets have lower bits
    hwy::DisableTargets(HWY_AVX3 | (HWY_AVX3 - 1));
  else if (target == "baseline")
    hwy::DisableTargets(HWY_AVX2 | (HWY_AVX2 - 1));
  targets() = find_targets();
  return cpu_target_name() == target;
}

}  // namespace planck
