// How the CUDA reductions are cut into blocks: by shape alone. Every cut is at a multiple of a
// power of two elements, so that none changes the order of a sum.
#pragma once

#include <cstdint>

namespace planck::reduce_cuts {

inline constexpr std::int64_t kLeastColumnRows = 256;      // of a chunk, where there are several
inline constexpr std::int64_t kEnoughGroups = 1024;        // for a block each
inline constexpr std::int64_t kEnoughBlocks = 16384;       // of chunks of rows, 32 KiB at least
inline constexpr std::int64_t kEnoughColumnBlocks = 8192;  // of chunks of columns
inline constexpr std::int64_t kEnoughTallBlocks = 2048;    // of chunks of tall ones

constexpr std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Results of chunks, at most, over all rounds.
constexpr std::int64_t partials(std::int64_t groups, std::int64_t length) {
  std::int64_t all = 0;
  while (length > kLeastColumnRows) {
    length = ceil_of(length, kLeastColumnRows);
    all += groups * length;
  }
  return all;
}

}  // namespace planck::reduce_cuts
