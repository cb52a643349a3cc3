// Codes, a byte each, as a file holds them: four-bit ones two to a byte, the first in the low bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace planck::cli {

// How four- and eight-bit integers become bytes: as they are, or plus half the range, as unsigned.
enum class CodeBytes : std::uint8_t { twos_complement, offset };

// `out` has `count` bytes.
void pack_bytes(const std::byte* codes, std::int64_t count, CodeBytes how, std::byte* out);
// `out` has (count + 1) / 2 bytes; where count is odd, the last has zero bits above.
void pack_nibbles(const std::byte* codes, std::int64_t count, CodeBytes how, std::byte* out);

}  // namespace planck::cli
