// softmax, log_softmax and cross_entropy as values; softmax.h says what they compute.
#pragma once

#include "planck/ops/softmax/softmax.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

// x → y along one axis; Backward: y, dy → dx
template <OpName N, SoftmaxKind Kind>
struct SoftmaxOp {
  static constexpr std::string_view name = N.view();
  static constexpr SoftmaxKind kind = Kind;
  int axis = 0;

  SoftmaxProblem problem(std::span<const InputSpec> in) const {
    return SoftmaxProblem{
        .kind = Kind, .element_dtype = in[0].dtype, .shape = in[0].shape, .axis = axis};
  }
  template <class B>
  Tensor<B> decompose(const Tensor<B>& x) const {
    const auto logarithm = x - logsumexp(x, axis, true);
    if constexpr (Kind == SoftmaxKind::softmax)
      return exp(logarithm);
    else
      return logarithm;
  }
};
using Softmax = SoftmaxOp<"softmax", SoftmaxKind::softmax>;
using LogSoftmax = SoftmaxOp<"log_softmax", SoftmaxKind::log_softmax>;
using SoftmaxBackward = SoftmaxOp<"softmax_backward", SoftmaxKind::softmax_backward>;
using LogSoftmaxBackward = SoftmaxOp<"log_softmax_backward", SoftmaxKind::log_softmax_backward>;

// logits [N, C], targets [N] → loss [N], lse [N], bad_targets
struct CrossEntropy {
  static constexpr std::string_view name = "cross_entropy";
  using Gives = Kinds<FloatKind, FloatKind, IntKind>;
  std::int64_t ignore_index = kDefaultIgnoreIndex;
  bool wide_loss = false;  // the loss of 16-bit logits is f32
  SoftmaxProblem problem(std::span<const InputSpec> in) const {
    return of(SoftmaxKind::cross_entropy, in[0]);
  }
  SoftmaxProblem of(SoftmaxKind kind, const InputSpec& logits) const {
    return SoftmaxProblem{.kind = kind,
                          .element_dtype = logits.dtype,
                          .shape = logits.shape,
                          .axis = 1,
                          .ignore_index = ignore_index,
                          .wide_loss = wide_loss};
  }
};
// logits, targets, lse, dloss → dlogits
struct CrossEntropyBackward {
  static constexpr std::string_view name = "cross_entropy_backward";
  CrossEntropy forward;
  SoftmaxProblem problem(std::span<const InputSpec> in) const {
    return forward.of(SoftmaxKind::cross_entropy_backward, in[0]);
  }
};

}  // namespace planck
