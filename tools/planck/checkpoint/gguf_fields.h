// The fields of a GGUF file that is written: those of the input, with what has changed.
#pragma once

#include <vector>

#include "planck/io/checkpoint/source.h"

namespace planck::cli {

// general.file_type and general.quantization_version are those of the new file. From an input that
// is not GGUF: general.architecture and name, and, where tokenizer.json lies beside it, its text as
// tokenizer.huggingface.json.
std::vector<GgufField> gguf_fields(const CheckpointSource& in, const TensorEncoding& blocks);

}  // namespace planck::cli
