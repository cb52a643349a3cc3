// softmax and log_softmax along one axis, and cross_entropy of rows of logits, with gradients.
//
//   softmax         m = max x;  e = exp(x - m);  s = sum of e;  y = e * (1 / s)
//     backward      dx = (dy - sum of dy * y) * y
//   log_softmax     y = (x - m) - log(s)
//     backward      dx = dy - exp(y) * (sum of dy)
//   cross_entropy   logits x [N, C], targets t [N];  m = max of x[n, …]
//                   l       = log(sum of e(x - c) / e(m - c)), e and c those of math/exp_terms.h
//                   loss[n] = (m - x[n, t[n]]) + l
//                   lse[n]  = m + l;  m itself where it is not finite
//     backward      dx[n, c] = dloss[n] * (exp(x[n, c] - lse[n]) - (c == t[n] ? 1 : 0))
//     wide_loss     loss and dloss have the compute type: bits of the same on logits that are cast
//
// Backward keeps y (softmax, log_softmax), or x, targets and lse (cross_entropy).
//
// Every operation is rounded in the compute type; sums are in the canonical pairwise order along
// the axis (docs/numerics.md). NaN anywhere along the axis gives NaN all along it, as does a
// largest value of +Inf or -Inf.
//
// Targets. i64 or i32. ignore_index gives loss 0 and gradient 0. So does a target outside of
// [0, C): nothing is read or written there, and bad_targets, where given, receives their number.
//
// Dtypes. f32, f64, f16, bf16; lse has the compute type, f64 for f64, else f32; so have loss and
// dloss with wide_loss.
//
// Views. Any strides. y may be the very view of x, dx that of any input of its shape; the outputs
// of cross_entropy overlap nothing.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device).
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

// The dtype of lse.
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
