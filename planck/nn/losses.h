// Losses, as PyTorch has them: their mean unless another reduction is asked for.
//
// cross_entropy_loss of logits x [N, C] and targets t [N], class weights w (1 if there are none),
// smoothing e; rows of ignore_index count for nothing:
//   loss[n] = w[t] (1 − e) (−log softmax(x)[t])  +  (e / C) Σ_c w[c] (−log softmax(x)[c])
//   mean    = Σ loss / Σ w[t] over the rows that count; NaN where none does
// Logits may have more axes, [N, C, …] with targets [N, …]. Losses of 16-bit rows are added up and
// divided in f32, and rounded once.
#pragma once

#include "planck/nn/parameter.h"
#include "planck/ops/index/index.functions.h"
#include "planck/ops/softmax/softmax.functions.h"

namespace planck::nn {

enum class Reduction : std::uint8_t { none, mean, sum };

namespace detail {

template <class B>
Tensor<B> reduced(const Tensor<B>& each, Reduction reduction) {
  if (reduction == Reduction::none) return each;
  return reduction == Reduction::mean ? mean(each) : sum(each);
}
// Broadcasting would compare every element with every other.
template <class B>
void check_same(std::string_view loss, const Tensor<B>& y, const Tensor<B>& target) {
  const Shape a = y.shape(), b = target.shape();
  if (a != b) refuse("{}: y has shape {}, the target {}; they must be the same", {loss, a, b});
}

}  // namespace detail

template <class B>
struct CrossEntropyOptions {
  std::optional<Tensor<B>> weight = {};  // of each class, [C]
  std::int64_t ignore_index = kDefaultIgnoreIndex;
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
  bool wide = false;  // the loss of 16-bit logits is f32: bits of the same on logits.to(f32)
};

namespace detail {

// Of logits [M, C] and targets [M]; `named` are these as they were given.
template <class B>
Tensor<B> cross_entropy_of_rows(const Tensor<B>& given, const Tensor<B, IntKind>& targets,
                                const CrossEntropyOptions<B>& options,
                                const Tensor<B, IntKind>& named) {
  const double smoothing = options.label_smoothing;
  // Two gradients meet at smoothed logits: their sum is rounded once.
  const auto logits = options.wide && smoothing > 0 ? widened(given) : given;
  if (!(smoothing >= 0 && smoothing <= 1))
    refuse("cross_entropy: the label smoothing is {}, it must be in [0, 1]", {smoothing});
  const auto each = softmax_detail::cross_entropy(
      logits, targets, CrossEntropy{options.ignore_index, options.wide}, BadIndices::refuse, named);
  const std::int64_t rows = logits.extent(0), classes = logits.extent(1);
  if (options.weight && (options.weight->rank() != 1 || options.weight->extent(0) != classes))
    refuse("cross_entropy: there are {} classes, their weights have shape {}",
           {classes, Shape(options.weight->shape())});
  const auto chosen = to_int(targets);  // i64
  const auto ignored = eq(chosen, full_like(chosen, Scalar(options.ignore_index)));
  Tensor<B> loss = widened(each);
  std::optional<Tensor<B>> weight, share;  // of each class; what each row counts for
  if (options.weight) {
    weight = widened(*options.weight);
    const auto of_target = index_select(*weight, 0, mask_fill(chosen, ignored, 0));
    share = mask_fill(of_target, ignored, 0);
    loss = loss * *share;
  }
  if (smoothing > 0) {
    const auto logarithms = log_softmax(widened(logits), 1);
    const auto all = sum(weight ? logarithms * *weight : logarithms, 1);
    loss = loss * (1 - smoothing) -
           mask_fill(all, ignored, 0) * (smoothing / static_cast<double>(classes));
  }
  if (options.reduction != Reduction::mean)
    return as_dtype(detail::reduced(loss, options.reduction), each.dtype());
  if (share) return as_dtype(mean(loss) / mean(*share), each.dtype());
  // How many rows count stays where they are: a factor of 1 where all do.
  const auto counted = static_cast<double>(rows) - to_float(sum(to_int(ignored)), Dtype::f64);
  const auto factor = as_dtype(static_cast<double>(rows) / counted, loss.dtype());
  return as_dtype(mean(loss) * factor, each.dtype());
}

// [N, C, …] and [N, …] as [M, C] and [M].
template <class B>
Tensor<B> flat_cross_entropy(const Tensor<B>& logits, const Tensor<B, IntKind>& targets,
                             const CrossEntropyOptions<B>& options) {
  Extents order{0};
  Shape each{logits.extent(0)};
  for (int d = 2; d < logits.rank(); ++d) {
    order.push_back(d);
    each.push_back(logits.extent(d));
  }
  order.push_back(1);
  const Shape given = targets.shape(), all = logits.shape();
  if (given != each)
    refuse("cross_entropy: logits have shape {}, targets {}; they must be [N, C, …] and [N, …]",
           {all, given});
  const std::int64_t classes = logits.extent(1), rows = numel(each);
  const auto loss = cross_entropy_of_rows(reshape(permute(logits, order), {rows, classes}),
                                          reshape(targets, {rows}), options, targets);
  return options.reduction == Reduction::none ? reshape(loss, each) : loss;
}

}  // namespace detail

// −log softmax(logits)[target], over the rows that are not ignored.
template <class B>
Tensor<B> cross_entropy_loss(const Tensor<B>& logits, const Tensor<B, IntKind>& targets,
                             const CrossEntropyOptions<B>& options = {}) {
  if (logits.rank() > 2) return detail::flat_cross_entropy(logits, targets, options);
  return detail::cross_entropy_of_rows(logits, targets, options, targets);
}

// (y − target)²
template <class B>
Tensor<B> mse_loss(const Tensor<B>& y, const Tensor<B>& target,
                   Reduction reduction = Reduction::mean) {
  detail::check_same("mse_loss", y, target);
  return detail::reduced(square(y - target), reduction);
}
// |y − target|
template <class B>
Tensor<B> l1_loss(const Tensor<B>& y, const Tensor<B>& target,
                  Reduction reduction = Reduction::mean) {
  detail::check_same("l1_loss", y, target);
  return detail::reduced(abs(y - target), reduction);
}
// −t log σ(x) − (1 − t) log(1 − σ(x)), without overflow or cancellation.
template <class B>
Tensor<B> bce_with_logits_loss(const Tensor<B>& x, const Tensor<B>& target,
                               Reduction reduction = Reduction::mean) {
  detail::check_same("bce_with_logits_loss", x, target);
  return detail::reduced(target * softplus(-x) + (1 - target) * softplus(x), reduction);
}

}  // namespace planck::nn
