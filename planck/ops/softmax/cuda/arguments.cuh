// What the kernels of softmax and of gradients take.
#pragma once

#include "planck/ops/softmax/cuda/entropy.cuh"
#include "planck/ops/softmax/softmax.problem.h"

namespace planck::row_device {

template <class T, RowWay kWay>
struct SoftmaxArguments {
  RowShape shape;
  OperandOf<const T, kWay> in[2];
  OperandOf<T, kWay> out;
  SoftmaxKind kind;
  // cross_entropy
  Targets targets;
  Losses<T> dloss;
  Compute<T>* lse;
  std::int64_t lse_stride;

  template <RowWay kTo>
  SoftmaxArguments<T, kTo> as() const {
    return {shape, {in[0], in[1]}, out, kind, targets, dloss, lse, lse_stride};
  }
};

// Calls f with an exp: the short one where all its arguments are near 0.
template <class F>
__device__ __forceinline__ void with_exp(bool near, const F& f) {
  if (near)
    f([](auto x) { return exp_near(x); });
  else
    f([](auto x) { return math::exp(x); });
}

}  // namespace planck::row_device
