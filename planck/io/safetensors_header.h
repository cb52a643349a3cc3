// The header of a safetensors file: its layout, its rules, and a parser that trusts nothing.
//
//   8 bytes   N, the length of the header, little endian, at most 100,000,000
//   N bytes   JSON, beginning with '{', padded with spaces:
//             {"__metadata__": {"key": "text", …},
//              "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …}
//   the rest  the tensors, row-major, little endian; offsets count from the header's end
//
// Promise: parse_header is a pure function of the bytes. It accepts a file only where every
// tensor's range holds exactly its dtype × shape, and the ranges tile the data without hole or
// overlap up to the last byte. Keys occur once, extents are whole numbers whose product fits in
// int64. A shape has at most 1,000 extents, a name at most 1 MiB, a file at most 262,144 tensors
// and as many keys of metadata. Anything else is one ErrorCode::io that names the tensor, the rule
// and both values. Memory stays proportional to the header's length.
//
// Every dtype of the format is known by its width; those that Planck computes with also have a
// Dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planck/core/dtype.h"
#include "planck/core/result.h"

namespace planck {

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
// What no checkpoint comes near to, and a hostile file could claim: extents of a shape, bytes of a
// name, tensors of a file, and keys of its metadata.
inline constexpr std::size_t kMaxSafetensorsRank = 1000, kMaxSafetensorsName = 1 << 20,
                             kMaxSafetensorsEntries = 1 << 18;

struct SafetensorsDtype {
  std::string_view text;  // as in the file: "F32", "I8", "F8_E4M3"
  int bits;
  std::optional<Dtype> dtype;  // none: opaque to Planck, kept as bytes
};

// Null where the format has no such dtype.
const SafetensorsDtype* find_safetensors_dtype(std::string_view text);

// How a Dtype is written. The packed s4 and u4 are U8, with a last extent half as long.
std::string_view safetensors_dtype(Dtype dtype);

struct SafetensorsEntry {
  std::string name;
  const SafetensorsDtype* type = nullptr;
  std::vector<std::int64_t> shape;   // of any rank
  std::uint64_t begin = 0, end = 0;  // bytes, from data_begin

  std::uint64_t bytes() const { return end - begin; }
};

using SafetensorsMetadata = std::map<std::string, std::string, std::less<>>;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  SafetensorsMetadata metadata;
  std::uint64_t data_begin = 0;

  const SafetensorsEntry* find(std::string_view name) const;  // null: no such tensor
};

[[nodiscard]] Result<SafetensorsHeader> parse_header(std::span<const std::byte> file);

// Lays the entries out, widest dtype first and then by name, so that every tensor is aligned to its
// element; fills in begin, end and data_begin and returns the bytes that precede the data. The same
// entries give the same bytes.
[[nodiscard]] Result<std::string> layout_header(SafetensorsHeader& header);

// Bytes of dtype × shape; an error where an extent is negative, the product overflows or a byte is
// left half used.
[[nodiscard]] Result<std::uint64_t> safetensors_bytes(const SafetensorsDtype& type,
                                                      std::span<const std::int64_t> shape);

// A name from a file, fit for one line of text: quoted, printable (printable.h), cut at 80 bytes.
std::string in_quotes(std::string_view name);
std::string shape_text(std::span<const std::int64_t> shape);  // "[2, 3]"

}  // namespace planck
