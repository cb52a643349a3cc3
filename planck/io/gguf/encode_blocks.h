// From f32 to GGUF's block formats (decode_blocks.h has what they mean).
//
//   Q8_0 Q4_0 Q4_1 Q5_0 Q5_1   the bytes of ggml's reference: scale from the range, quotients
//                              rounded half away from zero
//   Q4_K Q6_K                  a search, for each sub-block, for the scale and least value of least
//                              squared error, then once more among the neighbours that their
//                              quantized forms have
//
// Values that are not finite take no part in a range: NaN becomes 0, infinities the ends. One
// formula in f32, no fused operations: the same bytes on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "planck/io/checkpoint/encoding.h"

namespace planck {

using EncodeBlocks = void (*)(const float* x, std::int64_t blocks, std::byte* out);

// Null where blocks of this encoding are not written.
EncodeBlocks find_block_encoder(const TensorEncoding& encoding);

}  // namespace planck
