// How a quantized tensor's scheme is written in the metadata of a file: one JSON text, which
// `planck quantize` and saved modules share. docs/checkpoint_format.md says what it means.
#pragma once

#include <string>

#include "planck/core/dtype.h"
#include "planck/core/result.h"
#include "planck/core/shape.h"

namespace planck {

struct StoredScheme {
  std::string scheme;  // "per_tensor", "per_channel", "per_token" or "per_group"
  int axis = 0;
  std::int64_t group = 128;
  Dtype dtype = Dtype::s8;
  IntRange range = {-128, 127};
  bool symmetric = true;
  Dtype original_dtype = Dtype::f32;
  Shape original_shape;

  // What all zero points are where the scheme is symmetric: the middle of the dtype's range.
  std::int32_t common_zero_point() const;
};

std::string scheme_text(const StoredScheme& scheme);
// And back, from text that anybody may have written. Axis and group fit the original shape; the
// error says which member is wrong.
[[nodiscard]] Result<StoredScheme> parse_stored_scheme(const std::string& text);

}  // namespace planck
