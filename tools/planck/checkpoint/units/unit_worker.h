// Does the work of one unit: reads it, quantizes it, says what that cost. One worker to a thread;
// its buffers are kept from unit to unit and stay as small as the largest.
//
// Integers are made by the library's own ops, dynamic_quantize and quantize, on the unit seen as
// [outer, channels, inner] with a group to each channel; four-bit integers as bytes of a narrower
// range, packed here. So a unit gives the same bytes as the whole tensor would.
#pragma once

#include <vector>

#include "planck/io/checkpoint/source.h"
#include "planck/ops/quantize/quantize.math.h"
#include "planck/ops/quantize/scale_search.h"
#include "tools/planck/checkpoint/units/code_packer.h"
#include "tools/planck/checkpoint/units/quantization_error.h"
#include "tools/planck/checkpoint/units/unit_cut.h"
#include "tools/planck/ops/op_runner.h"

namespace planck::cli {

enum class Method : std::uint8_t { rtn, mse };

// Scales and zero points of channels, from UnitJob::first_channel on, whose groups do not fit into
// units.
struct SharedScales {
  std::vector<std::byte> scale;  // in the tensor's float dtype
  std::vector<std::int32_t> zero;
  std::vector<std::byte> first_scale;  // mse: those of rounding to the range
  std::vector<std::int32_t> first_zero;
};

struct UnitJob {
  const CheckpointSource* source = nullptr;
  const SourceTensor* tensor = nullptr;
  const TensorScheme* scheme = nullptr;
  Method method = Method::rtn;
  CodeBytes bytes = CodeBytes::twos_complement;
  const SharedScales* shared = nullptr;  // null: the unit finds its own
  std::int64_t first_channel = 0;        // of those that share
  std::byte* kept = nullptr;             // the tensor's floats, once they were read
  bool is_kept = false;                  // they were
  Unit unit{};
};

// Views into the worker's buffers, valid until its next unit.
struct QuantizedUnit {
  std::span<const std::byte> codes, scale;
  std::span<const std::int32_t> zero_point;
  QuantizationError error;
  QuantizationError before;  // of rounding to the range; mse only
  std::string_view kernel;
};

class UnitWorker {
 public:
  explicit UnitWorker(const Stream& stream) : quantizer_(stream), dequantizer_(stream) {}

  // The unit's elements as floats of CheckpointSource::float_dtype.
  [[nodiscard]] Result<View> read(const CheckpointSource& source, const SourceTensor& tensor,
                                  const Unit& unit);
  // The same of a job: from what is kept, and into it.
  [[nodiscard]] Result<View> read(const UnitJob& job);
  [[nodiscard]] Result<QuantizedUnit> quantize(const UnitJob& job);
  // The unit's bytes as they are stored.
  [[nodiscard]] Result<std::span<const std::byte>> copy(const UnitJob& job);
  // BOOL, U8, U16 and U32 as I8, I16, I32 and I64.
  [[nodiscard]] Result<std::span<const std::byte>> widen(const UnitJob& job);
  // Blocks of a pair of MXFP4, as GGUF has them: 16 bytes and an exponent become 17.
  [[nodiscard]] Result<std::span<const std::byte>> pair_blocks(const UnitJob& job,
                                                               const SourceTensor& exponents);
  // The unit as GGUF blocks.
  [[nodiscard]] Result<QuantizedUnit> encode(const UnitJob& job, const TensorEncoding& encoding);
  // lo and hi of the unit's channels.
  [[nodiscard]] Result<void> add_range(const UnitJob& job, std::span<double> lo,
                                       std::span<double> hi);
  // Errors of every candidate on the unit, [channels][kScaleCandidates], in units of scale² / 2^12:
  // integers, whose sum has no order. `all` begins with job.first_channel.
  [[nodiscard]] Result<void> add_candidate_errors(const UnitJob& job,
                                                  std::span<const ScaleSearch::Candidates> all,
                                                  std::span<std::int64_t> errors);
  // For dequantize: codes and scales back to floats, other encodings to f32 or bf16, pairs of MXFP4
  // (a unit of bytes, two elements each) to bf16.
  [[nodiscard]] Result<std::span<const std::byte>> restore(const CheckpointSource& in,
                                                           const QuantizedTensor& t,
                                                           const Unit& unit);
  [[nodiscard]] Result<std::span<const std::byte>> decode(const CheckpointSource& in,
                                                          const SourceTensor& t, Dtype dtype,
                                                          const Unit& unit);
  [[nodiscard]] Result<std::span<const std::byte>> restore_pairs(const CheckpointSource& in,
                                                                 const SourceTensor& blocks,
                                                                 const SourceTensor& exponents,
                                                                 const Unit& unit);

 private:
  // Codes of x by these scales, in made.codes, and what they cost.
  Result<QuantizationError> quantize_by(const UnitJob& job, const View& x, const View& scale,
                                        const View& zero, QuantizedUnit& made);
  // Fill scale_ and zero_, and with mse first_scale_ and first_zero_.
  void take_shared(const UnitJob& job, std::size_t width);
  void search(const UnitJob& job, const View& x, std::size_t width);
  Result<void> read_codes(const CheckpointSource& in, const QuantizedTensor& t, std::int64_t first,
                          std::int64_t n);
  template <class Run>
  void with_finite(const View& x, Run run);

  OpRunner quantizer_, dequantizer_;
  std::vector<std::byte> raw_, floats_, packed_, scale_, first_scale_, restored_;
  std::vector<float> finite_;
  std::vector<double> finite64_;
  std::vector<std::int32_t> zero_, first_zero_;
};

// The search that a scheme asks for.
ScaleSearch search_of(const TensorScheme& scheme);
// Of a tensor: bytes, of four-bit dtypes too.
Dtype code_dtype(Dtype dtype);
// A scale as bytes of its dtype.
void put_scale(double scale, Dtype element, std::byte* out);

}  // namespace planck::cli
