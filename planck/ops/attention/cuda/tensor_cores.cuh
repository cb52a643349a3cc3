// Attention on tensor cores, for each element type and width of heads: what tensor_cores.cu
// launches.
#pragma once

#include <cuda.h>

#include "planck/core/result.h"
#include "planck/core/stream.h"
#include "planck/ops/attention/cuda/scores.cuh"

namespace planck::attention_device {

// Maps of q, k, v and, backward, dy.
struct TileMaps {
  CUtensorMap q, k, v, dy;
};

// lse and delta of the queries of all heads, rows_of_head each, of which the last may be filled up.
struct Stats {
  const float *lse, *delta;
};

// kWidth: 64, 128 or 256, at least the widths of heads. By warpgroups, forward alone where it is
// 256, and by warps, up to 128.
template <class T, int kWidth>
Result<void> attend_tiles(const Stream&, const Call&, const TileMaps&);
template <class T, int kWidth>
Result<void> sum_tiles(const Stream&, const Call&, const TileMaps&, const Stats&,
                       const ChosenRows& again_dq, const ChosenRows& again_dk_dv);
template <class T, int kWidth>
Result<void> attend_warps(const Stream&, const Call&, const ChosenRows& again);
template <class T, int kWidth>
Result<void> sum_warps(const Stream&, const Call&, const Stats&, const ChosenRows& again_dq,
                       const ChosenRows& again_dk_dv);

// Whether scores become something else than product times scale, of keys in one range.
inline bool has_options(const Call& c) { return c.masked || c.alibi || c.drops || c.soft_cap != 0; }

}  // namespace planck::attention_device
