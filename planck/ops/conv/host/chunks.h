// How dweight's sum over places of the output is cut. Shapes alone decide.
#pragma once

#include <algorithm>

#include "planck/ops/conv/conv.problem.h"

namespace planck::conv_detail {

// Places (n, i, j) in row-major order, in `count` chunks of `length`; the last may be shorter.
struct Chunks {
  std::int64_t count, length;
};

// Chunks of 512 at least, 64 at most, and so few that all sums of chunks are at most 2^22 numbers:
// where dweight is large, there is work enough beside the chunks. tensor_core: whole steps of 64
// places, so that no block has places of two chunks.
inline Chunks chunks_of(const ConvProblem& p) {
  const std::int64_t places = p.batch() * p.extent(0) * p.extent(1), elements = numel(p.weight);
  const std::int64_t most = std::clamp<std::int64_t>(
      (std::int64_t{1} << 22) / std::max<std::int64_t>(elements, 1), 1, 64);
  const std::int64_t count = std::clamp<std::int64_t>((places + 511) / 512, 1, most);
  std::int64_t length = (places + count - 1) / count;
  if (p.math == ProductMath::tensor_core) length = (length + 63) / 64 * 64;
  return {length == 0 ? 1 : (places + length - 1) / length, length};
}

}  // namespace planck::conv_detail
