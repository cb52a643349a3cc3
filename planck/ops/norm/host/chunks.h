// How both devices cut the sums down the rows (dweight, dbias) into chunks where dx has a pass of
// its own: 2^k rows each, so that a chunk is a subtree of the canonical sum.
#pragma once

#include "planck/ops/norm/norm.problem.h"

namespace planck {

// Rows of a chunk, a power of two, and how many chunks there are.
inline constexpr std::int64_t kNormChunkRows = 512;
inline std::int64_t norm_chunks(const NormProblem& p) {
  return (p.rows() + kNormChunkRows - 1) / kNormChunkRows;
}

}  // namespace planck
