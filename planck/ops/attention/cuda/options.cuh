// Masks and what else a score becomes, number by number: functions of their own, since few problems
// ask for them.
#pragma once

#include "planck/ops/attention/cuda/scores.cuh"

namespace planck::attention_device {

template <class T>
__device__ __noinline__ float score_with_options(const Call& c, float s, int n, int head, int i,
                                                 int j) {
  return score_of<T>(c, capped_of<float>(c, s), n, head, i, j);
}

__device__ inline __noinline__ bool stays(const Call& c, int n, int head, int i, int j) {
  return keeps<float>(c, n, head, i, j);
}

// p, 0 where it is dropped, and ds of one query and key whose products are s and dp.
template <class T>
__device__ __noinline__ Slope<float> slope_with_options(const Call& c, float s, float dp, float lse,
                                                        float delta, int n, int head, int i,
                                                        int j) {
  return slope_of<T>(c, s, dp, lse, delta, n, head, i, j);
}

}  // namespace planck::attention_device
