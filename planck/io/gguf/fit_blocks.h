// Q4_K and Q6_K: scales of least squared error for 256 finite values.
#pragma once

#include <cstddef>

namespace planck {

void fit_q4_k(const float* x, std::byte* out);  // 144 bytes
void fit_q6_k(const float* x, std::byte* out);  // 210 bytes

}  // namespace planck
