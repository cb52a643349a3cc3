// layer_norm and rms_norm over the trailing axes, with gradients.
//
// A row has D elements. For each row, every operation rounded in the compute type:
//   layer_norm   mean    = (sum of x) / D
//                rstd    = 1 / sqrt((sum of (x - mean)^2) / D + eps)
//                y       = ((x - mean) * rstd) * weight + bias
//   rms_norm     the same with mean = 0, which is not stored, and without bias
//   backward     xhat    = (x - mean) * rstd;  g = dy * weight
//                dx      = ((g - (sum of g) / D) - xhat * ((sum of g * xhat) / D)) * rstd
//                          rms_norm: (g - xhat * ((sum of g * xhat) / D)) * rstd
//                dweight = sum over rows of dy * xhat
//                dbias   = sum over rows of dy
//
// Backward keeps x, mean, rstd and weight. A weight that is left out is 1, a bias that is left out
// is nothing; dweight and dbias are computed on request.
//
// Sums are in the canonical pairwise order (docs/numerics.md), along a row or down the rows.
//
// Dtypes. f32, f64, f16, bf16; mean and rstd have the compute type: f64 for f64, else f32.
//
// Views. Any strides. y may be the very view of x; gradients overlap no input.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device).
#pragma once

#include "planck/ops/norm/norm.problem.h"

namespace planck {

struct NormDescriptor {
  Shape x;
  int axes = 1;  // the trailing axes that are a row
  bool weighted = false, biased = false;
  double eps = 1e-5;
};

// The dtype of mean and rstd.
template <class T>
using RowStatistic = std::conditional_t<std::same_as<T, double>, double, float>;

// What rms_norm does not have (bias, mean) is left out.
template <NormKind Kind, class T>
struct NormPlanOp {
  using Problem = NormProblem;
  using Descriptor = NormDescriptor;
  struct Args {
    TensorView<const T> x, weight = {}, bias = {};
    TensorView<T> y;
    TensorView<RowStatistic<T>> mean = {}, rstd;
  };
  static Problem problem(const Descriptor& d) {
    return {.kind = Kind,
            .element_dtype = dtype_of<T>,
            .shape = d.x,
            .axes = d.axes,
            .weighted = d.weighted,
            .biased = d.biased,
            .eps = d.eps};
  }
  static Operands operands(const Args& a) { return {a.x, a.weight, a.bias, a.y, a.mean, a.rstd}; }
};
template <NormKind Kind, class T>
struct NormBackwardPlanOp : NormPlanOp<Kind, T> {
  struct Args {
    TensorView<const T> x, dy;
    TensorView<const RowStatistic<T>> mean = {}, rstd;
    TensorView<const T> weight = {};
    TensorView<T> dx, dweight = {}, dbias = {};
  };
  static Operands operands(const Args& a) {
    return {a.x, a.dy, a.mean, a.rstd, a.weight, a.dx, a.dweight, a.dbias};
  }
};

template <class T>
using LayerNormPlan = Plan<NormPlanOp<NormKind::layer_norm, T>>;
template <class T>
using RmsNormPlan = Plan<NormPlanOp<NormKind::rms_norm, T>>;
template <class T>
using LayerNormBackwardPlan = Plan<NormBackwardPlanOp<NormKind::layer_norm_backward, T>>;
template <class T>
using RmsNormBackwardPlan = Plan<NormBackwardPlanOp<NormKind::rms_norm_backward, T>>;

}  // namespace planck
