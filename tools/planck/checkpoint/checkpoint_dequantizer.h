// From a quantized checkpoint back to floats, unit by unit.
//
//   what planck quantize and saved modules wrote    x = scale * (q - zero_point), in its original
//                                                   dtype
//   F8, F4 and E8M0 tensors of safetensors          BF16, which holds them exactly
//   NAME_blocks and NAME_scales of U8 (MXFP4)       NAME, BF16
//   GGUF's block formats                            F32; MXFP4: BF16
//
// Everything else stays byte for byte, in a checkpoint of ours F8 and U8 too: it gets back what it
// was made of.
#pragma once

#include <string>

#include "planck/core/stream.h"
#include "planck/io/checkpoint/source.h"

namespace planck::cli {

struct RestoreReport {
  std::size_t restored = 0, kept = 0;
  std::uint64_t file_bytes_before = 0, file_bytes_after = 0;
};

// In files of at most `shard_bytes`; 0: in one. An input with nothing to restore is an error.
[[nodiscard]] Result<RestoreReport> dequantize_checkpoint(const CheckpointSource& in,
                                                          const std::string& out,
                                                          std::uint64_t shard_bytes,
                                                          const Stream& stream, int threads);

}  // namespace planck::cli
