// Typed plans of layer_norm and rms_norm; problem.h says what they compute.
#pragma once

#include "planck/ops/norm/norm.problem.h"

namespace planck {

struct NormDescriptor {
  Shape x;
  int axes = 1;  // the trailing axes that are a row
  bool weighted = false, biased = false;
  double eps = 1e-5;
};

// mean and rstd have the compute type: f64 for f64, else f32.
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
