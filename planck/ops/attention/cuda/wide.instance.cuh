// Forward of heads up to 256 wide, one source for each element type.
#pragma once

#include "planck/ops/attention/cuda/warpgroups.instance.cuh"

#undef PLANCK_INSTANTIATE
#define PLANCK_INSTANTIATE(T)                                                              \
  namespace planck::attention_device {                                                     \
  template Result<void> attend_tiles<T, 256>(const Stream&, const Call&, const TileMaps&); \
  }
