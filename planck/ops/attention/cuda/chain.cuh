// cuda:tiles for each width of heads: what chain_tiles.cu launches.
#pragma once

#include "planck/core/result.h"
#include "planck/core/stream.h"
#include "planck/ops/attention/cuda/scores.cuh"

namespace planck::attention_device {

// lse and delta of the queries of all heads, rows_of_head each, of which the last are zeros.
struct ChainStats {
  const float *lse, *delta;
  Index rows_of_head;
};

// Slopes that dk and dv were summed with, kept for dq: tiles of 64 keys by 64 queries, one row for
// each key, those of a tile of queries after the other. triangle: of as many, the upper ones alone.
struct KeptSlopes {
  float* data;    // null: nothing is kept
  Index of_head;  // tiles
  int key_tiles;
  bool triangle;

  static constexpr int kTile = 64 * 64;
  __host__ __device__ float* tile(Index head, int queries, int keys) const {
    const Index first = triangle ? Index{queries} * (queries + 1) / 2 : Index{queries} * key_tiles;
    return data + (head * of_head + first + keys) * kTile;
  }
};

// How operands lie, and whether scores become something else than product times scale.
struct ChainWays {
  bool chunks;  // 16 bytes of each that is read can be copied at once
  bool options;
};

// kWidth: 32, 64 or 128, at least the widths of heads. memory: what a block takes of it.
template <int kWidth>
std::size_t chain_memory(bool backward);
template <int kWidth>
Result<void> attend_chain(const Stream&, const Call&, const ChainWays&, const ChosenRows& again);
template <int kWidth>
Result<void> sum_dq_chain(const Stream&, const Call&, const ChainWays&, const ChainStats&,
                          const ChosenRows& again);
template <int kWidth>
Result<void> sum_dk_dv_chain(const Stream&, const Call&, const ChainWays&, const ChainStats&,
                             const KeptSlopes&, const ChosenRows& again);
// dq of kept slopes, as the next of a chain.
template <int kWidth>
Result<void> sum_kept_dq_chain(const Stream&, const Call&, const ChainWays&, const KeptSlopes&,
                               const ChosenRows& again);

}  // namespace planck::attention_device
