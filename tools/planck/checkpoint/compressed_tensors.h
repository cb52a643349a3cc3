// The compressed-tensors format, "pack-quantized", as vLLM and Transformers load it.
//
//   MODULE.weight_packed   I32 [out, in · bits / 32]: codes plus half the range, the first in the
//                          low bits
//   MODULE.weight_scale    of the weight's dtype, [out, in / group], or [out, 1] with one group
//                          per row
//   MODULE.weight_shape    I64 [2]: [out, in]
//
// and config.json has a quantization_config that names the scheme and every linear module that is
// not quantized. Symmetric s4 and s8, per group or per channel.
#pragma once

#include <string>
#include <vector>

#include "tools/planck/checkpoint/tensor_plan.h"

namespace planck::cli {

// The scheme as a whole; the error names the flag at fault.
[[nodiscard]] Result<void> check_compressed_tensors(const TensorScheme& scheme);
// Why a tensor is kept; "": it is not. Embeddings and output heads are, unless names are asked for.
std::string compressed_tensors_reason(const SourceTensor& t, const TensorScheme& scheme,
                                      bool by_name);
std::vector<OutputTensor> compressed_tensors_outputs(const SourceTensor& t,
                                                     const TensorScheme& scheme);
[[nodiscard]] Result<void> add_compressed_tensors_config(const CheckpointSource& in,
                                                         const TensorScheme& scheme,
                                                         CheckpointPlan& plan);

}  // namespace planck::cli
