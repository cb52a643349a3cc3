// MXFP4 as safetensors hold it, in two tensors of U8:
//
//   NAME_blocks [.., groups, 16]   32 values of four bits each, the even index in the low nibble
//   NAME_scales [.., groups]       the exponents of two, plus 127
//
// which together are NAME [.., 32 · groups].
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "planck/io/checkpoint/source.h"

namespace planck::cli {

// Blocks → scales.
using Mxfp4Pairs = std::unordered_map<const SourceTensor*, const SourceTensor*>;
Mxfp4Pairs find_mxfp4_pairs(const CheckpointSource& in);

std::string mxfp4_name(const SourceTensor& blocks);
std::vector<std::int64_t> mxfp4_shape(const SourceTensor& blocks);

}  // namespace planck::cli
