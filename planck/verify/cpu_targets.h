// Makes this process run its CPU kernels as on a lesser CPU, to compare bits between instruction
// sets.
#pragma once

#include <string_view>

#include "planck/core/result.h"

namespace planck::verify {

// "avx512", "avx2" or "baseline"; refused where the CPU has less. Call before any kernel has run:
// kernels keep what they found first.
[[nodiscard]] Result<void> restrict_cpu_target(std::string_view target);

}  // namespace planck::verify
