// Which instruction set the CPU kernels run on in this process.
#pragma once

#include <string_view>

namespace planck {

// The best instruction set that this machine's kernels use: "avx512", "avx2" or "baseline".
std::string_view cpu_target_name();

// Makes kernels run as if this CPU had no more than `target`; false if it has less. To be called
// before the first kernel runs: each looks for its loops once.
bool limit_cpu_target(std::string_view target);

}  // namespace planck
