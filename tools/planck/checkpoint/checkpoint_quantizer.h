// From checkpoint to quantized checkpoint, unit by unit.
//
// Units of a few hundred thousand elements are read, quantized, measured and written, each by one
// thread: memory is bounded by the number of threads, whatever the size of the checkpoint or of a
// tensor. What is not quantized is kept byte for byte, with the reason in the report: tensors that
// are not floats, are excluded, have too low a rank, are empty, or have a shape the scheme cannot
// take. The same input gives the same bytes on any device and number of threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planck/core/stream.h"
#include "planck/io/checkpoint/source.h"
#include "tools/planck/checkpoint/name_pattern.h"
#include "tools/planck/checkpoint/quantized_checkpoint.h"
#include "tools/planck/checkpoint/units/quantization_error.h"
#include "tools/planck/checkpoint/units/unit_worker.h"

namespace planck::cli {

enum class CheckpointFormat : std::uint8_t { planck, compressed_tensors, gguf };

struct QuantizeOptions {
  TensorScheme scheme;  // the original dtype and shape are each tensor's own
  Method method = Method::rtn;
  CheckpointFormat format = CheckpointFormat::planck;
  const TensorEncoding* blocks = nullptr;  // gguf: what tensors become
  std::uint64_t shard_bytes = 0;           // 0: one file
  std::optional<NamePattern> include, exclude;
  int min_rank = 2;
  bool strict = false;   // NaN or infinity in what is quantized is an error
  bool dry_run = false;  // the report has sizes and reasons; no element is read, nothing is written
};

struct TensorReport {
  const SourceTensor* entry;
  std::string scheme;       // as described; "" where the tensor was kept
  std::string kept_reason;  // "" where it was quantized
  std::string_view kernel;
  QuantizationError error;
  std::optional<double> noise_before;  // mse: what rounding to the range would have cost
  std::uint64_t bytes_before = 0, bytes_after = 0;

  bool quantized() const { return kept_reason.empty(); }
  double sqnr_db_before() const;
};

struct CheckpointReport {
  std::vector<TensorReport> tensors;
  std::uint64_t file_bytes_before = 0, file_bytes_after = 0;
};

// `threads` serve what is done on the host. An input of which no tensor can be quantized is an
// error.
[[nodiscard]] Result<CheckpointReport> quantize_checkpoint(const CheckpointSource& in,
                                                           const std::string& out,
                                                           const QuantizeOptions& options,
                                                           const Stream& stream, int threads);

}  // namespace planck::cli
