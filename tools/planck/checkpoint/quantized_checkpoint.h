// The format of a quantized checkpoint, version 1: enough to write a reader in any language.
//
// A quantized checkpoint is a safetensors file. Its __metadata__ holds what the original's held and
//
//   "planck.quantized"        "1"
//   "planck.quantized:NAME"   for every quantized tensor NAME, a JSON text:
//
//       {"scheme": "per_group", "group": 128, "dtype": "s4", "q_min": -8, "q_max": 7,
//        "symmetric": true, "original_dtype": "BF16", "original_shape": [4096, 4096]}
//
//       scheme   per_tensor, per_channel (it has "axis"), per_token or per_group (it has "group")
//       dtype    s8, u8, s4 or u4: the integers, which lie in q_min … q_max
//
// For every quantized tensor NAME there are three tensors in place of one:
//
//   NAME               the integers q. s8: I8, u8: U8, of the original shape. s4 and u4: U8, the
//                      last extent halved, two to a byte, the even index in the low nibble; s4 in
//                      two's complement
//   NAME.scale         of the original dtype
//   NAME.zero_point    I32, of the scale's shape
//
// The scale's shape, and which scale is that of element (i0, …, ik) of the original:
//
//   per_tensor     []                                  the one
//   per_channel    [shape[axis]]                       (i_axis)
//   per_token      shape without its last extent       (i0, …, ik-1)
//   per_group      shape, the last extent / group      (i0, …, ik-1, ik / group)
//
// The original is restored as x = scale * (q - zero_point), computed in f32 (F64: in f64) and
// rounded to the original dtype. All other tensors are the original's, byte for byte.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "planck/io/safetensors_header.h"
#include "planck/plan/registry.h"

namespace planck::cli {

inline constexpr std::string_view kQuantizedKey = "planck.quantized",
                                  kQuantizedPrefix = "planck.quantized:";
inline constexpr std::string_view kQuantizedVersion = "1";
inline constexpr std::string_view kScaleSuffix = ".scale", kZeroPointSuffix = ".zero_point";

struct TensorScheme {
  std::string scheme;  // "per_channel"
  int axis = 0;
  std::int64_t group = 128;
  Dtype dtype = Dtype::s8;
  bool symmetric = true;
  Dtype original_dtype = Dtype::f32;
  Shape original_shape;

  std::string metadata() const;     // the JSON text above
  std::string description() const;  // "per-group 128 s4 affine"

  // The ops that make and undo it. The errors say which rule the shape breaks.
  [[nodiscard]] Result<std::unique_ptr<AnyProblem>> quantize_problem() const;
  [[nodiscard]] Result<std::unique_ptr<AnyProblem>> dequantize_problem() const;
};

struct QuantizedTensor {
  TensorScheme scheme;
  const SafetensorsEntry *q, *scale, *zero_point;
};

bool is_quantized_checkpoint(const SafetensorsHeader& header);

// By name. Every scheme has been checked against the tensors it speaks of; the errors name the
// tensor.
[[nodiscard]] Result<std::map<std::string, QuantizedTensor, std::less<>>> quantized_tensors(
    const SafetensorsHeader& header);

// The metadata of the original: without what the format added.
SafetensorsMetadata original_metadata(const SafetensorsHeader& header);

}  // namespace planck::cli
