// The format of a quantized checkpoint, version 2, as docs/checkpoint_format.md describes it:
// reading and writing its metadata. Version 1, which had NAME.scale and a NAME.zero_point always,
// is read too.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "planck/io/checkpoint/source.h"
#include "planck/plan/registry.h"

namespace planck::cli {

inline constexpr std::string_view kQuantizedKey = "planck.quantized",
                                  kQuantizedPrefix = "planck.quantized:";
inline constexpr std::string_view kQuantizedVersion = "2";
inline constexpr std::string_view kScaleSuffix = "_scale", kZeroPointSuffix = "_zero_point";

struct TensorScheme {
  std::string scheme;  // "per_channel"
  int axis = 0;
  std::int64_t group = 128;
  Dtype dtype = Dtype::s8;
  bool symmetric = true;
  std::optional<IntRange> range = {};  // what the integers keep to; the dtype's own unless set
  Dtype original_dtype = Dtype::f32;
  Shape original_shape;

  std::string metadata() const;     // the JSON text above
  std::string description() const;  // "per-group 128 s4 affine"

  // The op that makes it. The errors say which rule the shape breaks.
  [[nodiscard]] Result<std::unique_ptr<AnyProblem>> quantize_problem() const;
};

// Shape of the scales, and of zero points where there are any.
Shape group_shape(const TensorScheme& scheme);

struct QuantizedTensor {
  TensorScheme scheme;
  const SourceTensor *q, *scale, *zero_point;  // no zero point: it is the scheme's
  std::int32_t common_zero_point() const;
};

bool is_quantized_checkpoint(const SafetensorsMetadata& metadata);

// By name. Every scheme has been checked against the tensors it speaks of; the errors name the
// tensor.
[[nodiscard]] Result<std::map<std::string, QuantizedTensor, std::less<>>> quantized_tensors(
    const CheckpointSource& source);

// The metadata of the original: without what the format added.
SafetensorsMetadata original_metadata(const SafetensorsMetadata& metadata);

}  // namespace planck::cli
