// Typed plans of the reductions; problem.h says what each computes. Reduced axes stay in `out`,
// with extent 1.
//
//   auto plan = SumPlan<float>::select(stream, {.x = {8, 1024}, .axes = 0b10});
//   plan->run(stream, workspace, {.x = x, .out = sums});          // sums: [8, 1]
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
