// Attention by warpgroups, for each element type and width of heads: what warpgroups.cu launches.
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

// kWidth: 64, 128 or 256, at least the widths of heads; forward alone where it is 256.
template <class T, int kWidth>
Result<void> attend_tiles(const Stream&, const Call&, const TileMaps&, const ChosenRows& again);
// stats: lse and delta of each head, filled up to whole steps of 64.
template <class T, int kWidth>
Result<void> sum_tiles(const Stream&, const Call&, const TileMaps&, const float* lse,
                       const ChosenRows& again_dq, const ChosenRows& again_dk_dv);

// Whether scores become something else than product times scale, of keys in one range.
inline bool has_options(const Call& c) { return c.masked || c.alibi || c.drops || c.soft_cap != 0; }

}  // namespace planck::attention_device
