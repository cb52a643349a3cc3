// Reductions over any set of axes; running sums and extremes along one.
//
//   sum  prod          over the reduced axes; integers wrap
//   mean               sum / n, one division in the compute type
//   max  min           NaN where there is one; +0 is above -0
//   var                sum of (x - mean)^2, divided by n - correction; NaN where n <= correction
//   logsumexp          max + log(sum of exp(x - max)); max itself where it is infinite.
//                      Both by chunks of 512 elements, which are joined (reduce.math.h)
//   argmax  argmin     the row-major index among the reduced elements, i64; the first of equals, +0
//                      and -0 are equal, the first NaN where there is one. One axis, or all
//   any  all           of bool
//   cumsum             out[i] = x[0] + ... + x[i] along an axis; reverse: x[i] + ... + x[n - 1]
//   cummax  cummin     values[i], the largest of x[0] ... x[i] along an axis, and indices[i], i64,
//                      where it last occurred: values[i] = x[indices[i]]. Of equals the last one
//                      counts, +0 and -0 are equal, a NaN wins and stays until the next NaN
//
// Reduced axes stay in `out`, with extent 1:
//
//   auto plan = SumPlan<float>::select(stream, {.x = {8, 1024}, .axes = 0b10});
//   plan->run(stream, workspace, {.x = x, .out = sums});          // sums: [8, 1]
//
// Over nothing: sum 0, prod 1, mean and var NaN, logsumexp -Inf, any false, all true; max, min,
// argmax and argmin refuse. Along nothing, cumsum, cummax and cummin give nothing.
//
// Sums. The reduced elements in row-major order are added in the canonical pairwise order
// (docs/numerics.md), products likewise; cumsum by chunks of 32 (planck/math/running_sum.h).
// cummax and cummin compute nothing: whichever way the work is cut, the last element that no other
// exceeds is the same one, and its bits are moved (a NaN becomes the canonical NaN).
//
// Dtypes. Floats; i32 and i64 for sum, prod, max, min, argmax, argmin, cumsum, cummax and cummin;
// bool for any and all. Arithmetic in f64 for f64, in f32 for narrower floats, rounded once at the
// store.
//
// Views. Any strides; no output overlaps its input.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device).
#pragma once

#include "planck/ops/reduce/reduce.problem.h"

namespace planck {

struct ReduceDescriptor {
  Shape x;
  unsigned axes = kAllAxes;     // bit d: axis d is reduced; scans: the one axis they run along
  std::int64_t correction = 1;  // var
  bool reverse = false;         // cumsum
};

template <ReduceKind Kind, class T>
struct ReducePlanOp {
  using Problem = ReduceProblem;
  using Descriptor = ReduceDescriptor;
  static constexpr bool kFinds = Kind == ReduceKind::argmax || Kind == ReduceKind::argmin;
  struct Args {
    TensorView<const T> x;
    TensorView<std::conditional_t<kFinds, std::int64_t, T>> out;
  };
  static Problem problem(const Descriptor& d) {
    const unsigned all = (1u << d.x.rank()) - 1;
    return {.kind = Kind,
            .element_dtype = dtype_of<T>,
            .shape = d.x,
            .axes = d.axes & all,
            .correction = d.correction,
            .reverse = d.reverse};
  }
  static Operands operands(const Args& a) { return {a.x, a.out}; }
};

template <ReduceKind Kind, class T>
struct RunningExtremePlanOp {
  using Problem = ReduceProblem;
  struct Descriptor {
    Shape x;
    unsigned axes = 1;  // bit d: the one axis to run along
  };
  struct Args {
    TensorView<const T> x;
    TensorView<T> values;
    TensorView<std::int64_t> indices;
  };
  static Problem problem(const Descriptor& d) {
    return {.kind = Kind, .element_dtype = dtype_of<T>, .shape = d.x, .axes = d.axes};
  }
  static Operands operands(const Args& a) { return {a.x, a.values, a.indices}; }
};

template <ReduceKind Kind, class T>
using ReducePlan = Plan<ReducePlanOp<Kind, T>>;
template <class T>
using SumPlan = ReducePlan<ReduceKind::sum, T>;
template <class T>
using MeanPlan = ReducePlan<ReduceKind::mean, T>;
template <class T>
using MaxPlan = ReducePlan<ReduceKind::max, T>;
template <class T>
using MinPlan = ReducePlan<ReduceKind::min, T>;
template <class T>
using VarPlan = ReducePlan<ReduceKind::var, T>;
template <class T>
using LogSumExpPlan = ReducePlan<ReduceKind::logsumexp, T>;
template <class T>
using ArgmaxPlan = ReducePlan<ReduceKind::argmax, T>;
template <class T>
using CumsumPlan = ReducePlan<ReduceKind::cumsum, T>;
template <class T>
using CummaxPlan = Plan<RunningExtremePlanOp<ReduceKind::cummax, T>>;
template <class T>
using CumminPlan = Plan<RunningExtremePlanOp<ReduceKind::cummin, T>>;

}  // namespace planck
