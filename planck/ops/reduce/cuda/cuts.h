// How the CUDA reductions are cut into blocks: by shape alone. Every cut is at a multiple of a
// power of two elements, so that none changes the order of a sum.
#pragma once

#include <cstdint>

#include "planck/ops/reduce/reduce.math.h"

namespace planck::reduce_cuts {

inline constexpr std::int64_t kLeastColumnRows = 256;      // of a chunk, where there are several
inline constexpr std::int64_t kEnoughGroups = 1024;        // for a block each
inline constexpr std::int64_t kEnoughBlocks = 16384;       // of chunks of rows, 32 KiB at least
inline constexpr std::int64_t kEnoughColumnBlocks = 8192;  // of chunks of columns
inline constexpr std::int64_t kEnoughTallBlocks = 2048;    // of chunks of tall ones

inline constexpr std::int64_t kEnoughStatWarps = 8192;  // var, logsumexp of rows
inline constexpr std::int64_t kEnoughStatBlocks = 200;  // and of columns

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

// Nodes of chunks of 512 elements (reduce.math.h): none where a group is one chunk.
constexpr std::int64_t chunk_nodes(std::int64_t groups, std::int64_t length) {
  const std::int64_t chunks = ceil_of(length, reduce_math::kStatChunk);
  return chunks > 1 ? groups * chunks : 0;
}

}  // namespace planck::reduce_cuts
