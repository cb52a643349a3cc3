// Typed plans of softmax, log_softmax and cross_entropy; problem.h says what they compute.
#pragma once

#include "planck/ops/softmax/softmax.problem.h"

namespace planck {

struct SoftmaxDescriptor {
  Shape x;
  int axis;
};
struct CrossEntropyDescriptor {
  std::int64_t rows, classes;
  std::int64_t ignore_index = kDefaultIgnoreIndex;
};

template <SoftmaxKind Kind, class T>
struct SoftmaxPlanOp {
  using Problem = SoftmaxProblem;
  using Descriptor = SoftmaxDescriptor;
  struct Args {
    TensorView<const T> x;
    TensorView<T> y;
  };
  static Problem problem(const Descriptor& d) {
    return {.kind = Kind, .element_dtype = dtype_of<T>, .shape = d.x, .axis = d.axis};
  }
  static Operands operands(const Args& a) { return {a.x, a.y}; }
};
template <SoftmaxKind Kind, class T>
struct SoftmaxBackwardPlanOp : SoftmaxPlanOp<Kind, T> {
  struct Args {
    TensorView<const T> y, dy;
    TensorView<T> dx;
  };
  static Operands operands(const Args& a) { return {a.y, a.dy, a.dx}; }
};

// lse has the compute type: f64 for f64, else f32.
template <class T>
using LogOfSum = std::conditional_t<std::same_as<T, double>, double, float>;

template <class T>
struct CrossEntropyPlanOp {
  using Problem = SoftmaxProblem;
  using Descriptor = CrossEntropyDescriptor;
  template <class Index>
  struct Args {
    TensorView<const T> x;
    TensorView<const Index> targets;
    TensorView<T> loss;
    TensorView<LogOfSum<T>> lse;
    TensorView<std::int64_t> bad_targets = {};
    Operands operands() const { return {x, targets, loss, lse, bad_targets}; }
  };
  static Problem problem(const Descriptor& d) {
    return {.kind = SoftmaxKind::cross_entropy,
            .element_dtype = dtype_of<T>,
            .shape = {d.rows, d.classes},
            .axis = 1,
            .ignore_index = d.ignore_index};
  }
};
template <class T>
struct CrossEntropyBackwardPlanOp : CrossEntropyPlanOp<T> {
  template <class Index>
  struct Args {
    TensorView<const T> x;
    TensorView<const Index> targets;
    TensorView<const LogOfSum<T>> lse;
    TensorView<const T> dloss;
    TensorView<T> dx;
    Operands operands() const { return {x, targets, lse, dloss, dx}; }
  };
  static SoftmaxProblem problem(const CrossEntropyDescriptor& d) {
    SoftmaxProblem p = CrossEntropyPlanOp<T>::problem(d);
    p.kind = SoftmaxKind::cross_entropy_backward;
    return p;
  }
};

template <class T>
using SoftmaxPlan = Plan<SoftmaxPlanOp<SoftmaxKind::softmax, T>>;
template <class T>
using LogSoftmaxPlan = Plan<SoftmaxPlanOp<SoftmaxKind::log_softmax, T>>;
template <class T>
using SoftmaxBackwardPlan = Plan<SoftmaxBackwardPlanOp<SoftmaxKind::softmax_backward, T>>;
template <class T>
using LogSoftmaxBackwardPlan = Plan<SoftmaxBackwardPlanOp<SoftmaxKind::log_softmax_backward, T>>;
template <class T>
using CrossEntropyPlan = IndexedPlan<CrossEntropyPlanOp<T>>;
template <class T>
using CrossEntropyBackwardPlan = IndexedPlan<CrossEntropyBackwardPlanOp<T>>;

}  // namespace planck
