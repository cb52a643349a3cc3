// Which instruction set the CPU kernels run on in this process.
#pragma once

#include <string_view>

namespace planck {

std::string_view cpu_target_name();  // "avx512", "avx2" or "baseline"

}  // namespace planck
