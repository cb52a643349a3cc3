// softmax, log_softmax and cross_entropy on tensors.
#pragma once

#include "planck/ops/elementwise/elementwise.functions.h"
#include "planck/ops/embedding/embedding.functions.h"
#include "planck/ops/reduce/reduce.functions.h"
#include "planck/ops/softmax/softmax.ops.h"

namespace planck {

// exp(x) / Σ exp(x) along an axis, without overflow.
template <class B>
Tensor<B> softmax(const Tensor<B>& x, int axis = -1) {
  return call(Softmax{value_or_throw(checked_axis("softmax", axis, x.rank()))}, x);
}
// x − log(Σ exp x) along an axis.
template <class B>
Tensor<B> log_softmax(const Tensor<B>& x, int axis = -1) {
  return call(LogSoftmax{value_or_throw(checked_axis("log_softmax", axis, x.rank()))}, x);
}

// 1 where the class is the target, as floats of x's dtype: [N, C]
template <class B>
Tensor<B> target_mask(const Tensor<B>& x, const Tensor<B, IntKind>& targets) {
  const Shape& shape = x.shape();
  const auto classes = arange<B>(shape[1], targets.dtype(), x.device());
  return to_float(eq(expand(reshape(targets, {shape[0], 1}), shape), expand(classes, shape)),
                  x.dtype());
}

namespace softmax_detail {

// `named`: the targets in the shape in which messages name one, row-major.
template <class B>
Tensor<B> cross_entropy(const Tensor<B>& logits, const Tensor<B, IntKind>& targets,
                        const CrossEntropy& op, BadIndices bad, const Tensor<B, IntKind>& named) {
  if (logits.rank() != 2 || targets.rank() != 1 || targets.extent(0) != logits.extent(0))
    refuse("cross_entropy: logits have shape {}, targets {}; they must be [N, C] and [N]",
           {logits.shape(), targets.shape()});
  if constexpr (B::template applies<CrossEntropy>) {
    auto [loss, lse, count] = call(op, logits, targets);
    if (bad == BadIndices::refuse)
      refuse_bad({"cross_entropy", "targets", logits.extent(1), op.ignore_index}, named, count);
    return loss;
  } else {
    const auto x = op.wide_loss ? logits.to(compute_dtype(logits.dtype())) : logits;
    const auto chosen = sum(x * target_mask(x, targets), 1);
    const auto ignored = eq(targets, full_like(targets, Scalar(op.ignore_index)));
    return mask_fill(logsumexp(x, 1) - chosen, ignored, 0);
  }
}

}  // namespace softmax_detail

// The loss of each row of logits [N, C] against its target, log(Σ exp x) − x[target]; 0 for
// ignore_index. sum() makes one number of it; nn::cross_entropy_loss also the mean of the rows that
// are not ignored. Targets out of range are refused. wide_loss: of 16-bit logits the loss is f32,
// with the bits of cross_entropy(logits.to(Dtype::f32), targets) and no f32 logits in memory.
template <class B>
Tensor<B> cross_entropy(const Tensor<B>& logits, const Tensor<B, IntKind>& targets,
                        std::int64_t ignore_index = kDefaultIgnoreIndex,
                        BadIndices bad = BadIndices::refuse, bool wide_loss = false) {
  return softmax_detail::cross_entropy(logits, targets, CrossEntropy{ignore_index, wide_loss}, bad,
                                       targets);
}

}  // namespace planck
