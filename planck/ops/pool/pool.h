// Pooling over the last two axes of a tensor [.., H, W], with gradients.
//
//   max_pool2d           y[.., oh, ow] = the largest pixel of window (oh, ow)
//                        indices[.., oh, ow] = where it is, h * W + w
//     backward           dx[.., h, w] = Σ dy of the windows whose index is (h, w); keeps indices
//   avg_pool2d           y = (Σ pixels of the window) / count
//     backward           dx = Σ dy / count over the windows that have the pixel; keeps nothing
//   adaptive_avg_pool2d  the same for a given number of windows: pixels
//                        floor(i * H / OH) … ceil((i + 1) * H / OH) − 1 are those of window i
//
// Windows. Window o has the taps o * stride − padding + k * dilation, 0 <= k < kernel; stride 0
// means the kernel's extent, padding is at most half the kernel. Of these windows there are
//   OH = floor((H + 2 padding − dilation (kernel − 1) − 1) / stride) + 1, OW likewise.
// With ceil_mode it is ceil, less one that would start behind the last pixel and its padding.
//
// Largest. The first of equal pixels in row-major order; NaN is above every number, the first NaN
// is taken. Padding is never taken: a window without a pixel (dilation can make one) gives −Inf,
// −128 for s8, and index −1. An index that is not a pixel of its window passes no gradient.
//
// Averages. count is the number of the window's pixels; with count_include_pad that of its taps in
// the image and its padding. Dilation is 1.
//
// Sums. In the compute type, from +0: pixels in row-major order, then one division; gradients in
// ascending order of windows, each divided first. A NaN result is the quiet one without a payload.
//
// Dtypes. f32 f64 f16 bf16; max_pool2d also s8. Indices are int32: a plane has less than 2^31
// pixels (a larger one is refused), every op that takes indices takes int32, and with f32 they are
// half of what is written instead of two thirds.
//
// Views. Any strides; no output overlaps anything.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device).
#pragma once

#include "planck/ops/pool/pool.problem.h"

namespace planck {

struct PoolDescriptor {
  Shape x;  // of a gradient, dx's
  PoolOptions options;
};
struct AdaptivePoolDescriptor {
  Shape x;
  PoolPair size;
};

template <class T>
struct MaxPool2dOp {
  using Problem = PoolProblem;
  using Descriptor = PoolDescriptor;
  struct Args {
    TensorView<const T> x;
    TensorView<T> y;
    TensorView<std::int32_t> indices;
  };
  static Problem problem(const Descriptor& d) {
    return {
        .kind = PoolKind::max_pool2d, .element_dtype = dtype_of<T>, .x = d.x, .options = d.options};
  }
  static Operands operands(const Args& a) { return {a.x, a.y, a.indices}; }
};
template <class T>
struct MaxPool2dBackwardOp {
  using Problem = PoolProblem;
  using Descriptor = PoolDescriptor;
  struct Args {
    TensorView<const T> dy;
    TensorView<const std::int32_t> indices;
    TensorView<T> dx;
  };
  static Problem problem(const Descriptor& d) {
    return {.kind = PoolKind::max_pool2d_backward,
            .element_dtype = dtype_of<T>,
            .x = d.x,
            .options = d.options};
  }
  static Operands operands(const Args& a) { return {a.dy, a.indices, a.dx}; }
};

template <PoolKind Kind, class T>
struct AvgPool2dOp {
  using Problem = PoolProblem;
  using Descriptor =
      std::conditional_t<Kind == PoolKind::avg_pool2d || Kind == PoolKind::avg_pool2d_backward,
                         PoolDescriptor, AdaptivePoolDescriptor>;
  struct Forward {
    TensorView<const T> x;
    TensorView<T> y;
  };
  struct Backward {
    TensorView<const T> dy;
    TensorView<T> dx;
  };
  static constexpr bool kBackward = static_cast<int>(Kind) % 2 == 1;
  using Args = std::conditional_t<kBackward, Backward, Forward>;
  static Problem problem(const Descriptor& d) {
    Problem p{.kind = Kind, .element_dtype = dtype_of<T>, .x = d.x};
    if constexpr (std::same_as<Descriptor, PoolDescriptor>)
      p.options = d.options;
    else
      p.size = d.size;
    return p;
  }
  static Operands operands(const Forward& a) { return {a.x, a.y}; }
  static Operands operands(const Backward& a) { return {a.dy, a.dx}; }
};

template <class T>
using MaxPool2dPlan = Plan<MaxPool2dOp<T>>;
template <class T>
using MaxPool2dBackwardPlan = Plan<MaxPool2dBackwardOp<T>>;
template <class T>
using AvgPool2dPlan = Plan<AvgPool2dOp<PoolKind::avg_pool2d, T>>;
template <class T>
using AvgPool2dBackwardPlan = Plan<AvgPool2dOp<PoolKind::avg_pool2d_backward, T>>;
template <class T>
using AdaptiveAvgPool2dPlan = Plan<AvgPool2dOp<PoolKind::adaptive_avg_pool2d, T>>;
template <class T>
using AdaptiveAvgPool2dBackwardPlan = Plan<AvgPool2dOp<PoolKind::adaptive_avg_pool2d_backward, T>>;

}  // namespace planck
