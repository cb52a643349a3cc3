// The start of a GGUF file: its layout, its rules, a parser that trusts nothing, and a writer.
//
//   4 bytes   "GGUF"
//   u32       version: 2 or 3 are read, 3 is written
//   u64 u64   how many tensors, how many fields
//   fields    key (u64 length, bytes), u32 type, value; arrays are u32 type, u64 count, values
//   tensors   name, u32 rank (at most 4), u64 extents with the fastest first, u32 type, u64 offset
//   padding   to a multiple of "general.alignment", 32 unless the field says otherwise
//   the rest  the tensors; offsets count from here and are multiples of the alignment
//
// Promise: parse_gguf is a pure function of the bytes. It accepts a file only where every tensor's
// bytes lie inside it and no two overlap, and names and keys occur once. Anything else is one
// ErrorCode::io that names the tensor or key, the rule and both values. A file has at most 262,144
// tensors and as many fields. Time is linear in the header's length, and so is memory: a count is
// believed only as far as the file is long enough to hold it. Fields are kept as the bytes they
// are, so that what is carried over stays what it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planck/io/checkpoint/encoding.h"

namespace planck {

struct GgufField {
  std::string key;
  std::uint32_t type = 0;
  std::string value;  // as in the file

  static GgufField text(std::string key, std::string_view value);
  static GgufField number(std::string key, std::uint32_t value);
  static GgufField number16(std::string key, std::uint16_t value);
  static GgufField signed_number(std::string key, std::int32_t value);
};

struct GgufTensor {
  std::string name;
  const TensorEncoding* type = nullptr;
  std::vector<std::int64_t> shape;  // the slowest first: the file's order turned round
  std::uint64_t begin = 0;          // from data_begin
  std::uint64_t bytes = 0;
};

struct GgufHeader {
  std::vector<GgufField> fields;
  std::vector<GgufTensor> tensors;  // in the order of their bytes
  std::uint64_t alignment = 32;
  std::uint64_t data_begin = 0;

  const GgufField* find(std::string_view key) const;  // null: no such field
};

[[nodiscard]] Result<GgufHeader> parse_gguf(std::span<const std::byte> file);

// Lays the tensors out in their order, fills in begin, bytes and data_begin, and returns the bytes
// that precede the data. The same header gives the same bytes.
[[nodiscard]] Result<std::string> layout_gguf(GgufHeader& header);
std::uint64_t gguf_file_bytes(const GgufHeader& header);  // of one that was laid out

}  // namespace planck
