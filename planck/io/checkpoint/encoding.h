// How the numbers of a stored tensor lie in its bytes: plain elements, narrow floats, or blocks
// that share a scale.
//
// Every dtype of safetensors and every type of GGUF has a row. A row says how many elements a block
// has and how many bytes it takes, so that any tensor can be measured, checked and carried through.
// Rows with a Dtype are what ops compute with. Rows with `decode` are floats in another form:
// decode gives exactly the number that the format's definition gives, in f32.
//
// Where both formats have a type, there is one row ("F32", "BF16", "I32").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planck/core/dtype.h"
#include "planck/core/result.h"

namespace planck {

struct TensorEncoding {
  std::string_view text;  // as safetensors or GGUF call it: "F32", "F8_E4M3", "Q4_K"
  int elements, bytes;    // of a block; plain elements are blocks of one
  std::optional<Dtype> dtype;
  void (*decode)(const std::byte* blocks, std::int64_t count, float* out);  // null: none
  int gguf;                                                                 // its number; -1: none
  bool safetensors;                                                         // has it

  bool is_plain_float() const { return dtype && is_float(*dtype); }
};

std::span<const TensorEncoding> all_encodings();
const TensorEncoding* find_encoding(std::string_view text);  // null: no such encoding
const TensorEncoding* find_gguf_encoding(std::uint32_t type);
const TensorEncoding& encoding_of(Dtype dtype);  // of dtypes that are not packed

// Bytes of a tensor; the last extent holds whole blocks, and nothing overflows. Elements narrower
// than a byte may lie across rows: their blocks are counted over the whole tensor.
[[nodiscard]] Result<std::uint64_t> encoded_bytes(const TensorEncoding& encoding,
                                                  std::span<const std::int64_t> shape);

}  // namespace planck
