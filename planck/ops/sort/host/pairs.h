// A stable device-wide sort of keys with positions, and the memory it needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "planck/core/result.h"
#include "planck/core/stream.h"

namespace planck::sort_device {

// Bytes to set aside: what the toolkit's radix sort keeps of its tiles of 2,048 elements or more,
// 256 counters of 4 bytes each, and histograms. Compared with its own figure before every launch.
constexpr std::size_t temporary_bytes_for(std::int64_t elements) {
  return static_cast<std::size_t>(elements) / 2 + (std::size_t{4} << 20);
}

// Sorts from and to two arrays of each; returns which of the two is the sorted one. U: 32 or 64
// bits.
template <class U>
Result<int> sort_pairs(const Stream& stream, void* temporary, U* const (&keys)[2],
                       std::uint32_t* const (&positions)[2], std::int64_t count, int key_bits);

}  // namespace planck::sort_device
