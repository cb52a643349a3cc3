// GGUF's blocks and what they restore to, made in one go.
//
// Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1 are made by vectors, 32 blocks at a time; blocks with NaN,
// infinities, zeros or ties that decide a scale, or scales beyond f32, go through the plain encoder
// of planck/io/gguf, and so does everything on a CPU without AVX2. The bytes are always those of
// the plain encoder, the floats those of the encoding's decoder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "planck/io/checkpoint/encoding.h"

namespace planck::cli {

// x and restored: blocks · encoding.elements floats.
void encode_blocks(const TensorEncoding& encoding, const float* x, std::int64_t blocks,
                   std::byte* out, float* restored);

}  // namespace planck::cli
