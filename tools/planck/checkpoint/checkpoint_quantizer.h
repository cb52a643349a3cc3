// From checkpoint to quantized checkpoint, tensor by tensor.
//
// The input is mapped and forgotten as it is used, the output written as it comes: memory is
// bounded by the largest tensor, whatever the checkpoint's size. What is not quantized is kept byte
// for byte, with the reason in the report: tensors that are not floats, are excluded, have too low
// a rank, are empty, or have a shape the scheme cannot take. The same input gives the same bytes on
// any device and number of threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planck/core/stream.h"
#include "planck/io/safetensors.h"
#include "tools/planck/checkpoint/name_pattern.h"
#include "tools/planck/checkpoint/quantization_error.h"
#include "tools/planck/checkpoint/quantized_checkpoint.h"

namespace planck::cli {

struct QuantizeOptions {
  TensorScheme scheme;  // the original dtype and shape are each tensor's own
  std::optional<NamePattern> include, exclude;
  int min_rank = 2;
};

struct TensorReport {
  const SafetensorsEntry* entry;
  std::string scheme;       // as described; "" where the tensor was kept
  std::string kept_reason;  // "" where it was quantized
  std::string_view kernel;
  QuantizationError error;
  std::uint64_t bytes_before = 0, bytes_after = 0;

  bool quantized() const { return kept_reason.empty(); }
};

struct CheckpointReport {
  std::vector<TensorReport> tensors;
  std::uint64_t file_bytes_before = 0, file_bytes_after = 0;
};

// `threads` serve what is done on the host. An input of which no tensor can be quantized is an
// error.
[[nodiscard]] Result<CheckpointReport> quantize_checkpoint(const SafetensorsFile& in,
                                                           const std::string& out,
                                                           const QuantizeOptions& options,
                                                           const Stream& stream, int threads);

}  // namespace planck::cli
