// What will be done with each tensor, and what the output is going to hold: decided from headers
// alone, before anything is read.
#pragma once

#include <string>
#include <vector>

#include "tools/planck/checkpoint/checkpoint_output.h"
#include "tools/planck/checkpoint/checkpoint_quantizer.h"

namespace planck::cli {

struct TensorPlan {
  enum class Action : std::uint8_t {
    keep,      // byte for byte
    decode,    // kept, but as f32: the output's format has no such type
    widen,     // kept, but as wider integers, for the same reason
    pair,      // the blocks of a pair of MXFP4, which with their scales become GGUF's
    part,      // those scales: nothing of their own
    integers,  // codes and scales
    blocks,    // GGUF's
  };
  const SourceTensor* source = nullptr;
  const SourceTensor* exponents = nullptr;  // of a pair
  Action action = Action::keep;
  std::string kept_reason;
  TensorScheme scheme;
  std::size_t first_output = 0;  // codes or the tensor itself; then scale, then zero point
  std::size_t outputs = 1;
  std::uint64_t bytes_after = 0;

  bool quantized() const { return action == Action::integers || action == Action::blocks; }
};

struct CheckpointPlan {
  std::vector<TensorPlan> tensors;
  std::vector<OutputTensor> outputs;
  OutputOptions output;
};

[[nodiscard]] Result<CheckpointPlan> plan_checkpoint(const CheckpointSource& in,
                                                     const std::string& out,
                                                     const QuantizeOptions& options);

}  // namespace planck::cli
