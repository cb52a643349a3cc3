// Q4_K and Q6_K by vectors: the bytes of planck/io/gguf/fit_blocks.h, which is their definition.
#pragma once

#include <cstddef>

namespace planck::cli {

// 256 values into 144 or 210 bytes. False, and nothing written, where the plain fit has to be
// taken: a value is not finite, or the CPU has no vectors that are worth it.
bool fit_q4_k_by_vectors(const float* x, std::byte* out);
bool fit_q6_k_by_vectors(const float* x, std::byte* out);

}  // namespace planck::cli
