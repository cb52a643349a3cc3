// How both devices cut the sums down the rows (dweight, dbias) into chunks: the cut is part of the
// order of the sum.
#pragma once

#include "planck/ops/norm/norm.problem.h"

namespace planck {

// Rows of a chunk, a power of two, and how many chunks there are.
inline constexpr std::int64_t kNormChunkRows = 512;
inline std::int64_t norm_chunks(const NormProblem& p) {
  return (p.rows() + kNormChunkRows - 1) / kNormChunkRows;
}

}  // namespace planck
