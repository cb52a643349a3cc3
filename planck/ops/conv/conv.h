// Two-dimensional convolution and its two gradients.
//
// x [N, C, H, W], weight [F, C / groups, KH, KW], y and dy [N, F, OH, OW], with
//   OH = floor((H + 2 padding - (KH - 1) dilation - 1) / stride) + 1, OW likewise.
// Filters and channels are cut into `groups` parts; part g of the filters sees part g of the
// channels. With h = i stride + u dilation - padding, w likewise, and x = +0 outside the image:
//
//   conv2d         y[n, f, i, j]       = sum over (c, u, v) of weight[f, c, u, v] * x[n, c, h, w]
//   conv2d_input   dx[n, c, h, w]      = sum over (f, u, v) of weight[f, c, u, v] * dy[n, f, i, j]
//   conv2d_weight  dweight[f, c, u, v] = sum over (n, i, j) of dy[n, f, i, j] * x[n, c, h, w]
//
// What a product means is part of the problem (`math`; docs/numerics.md, "Convolution"), rounded
// once to the output. Borders take part as zeros everywhere, so that Inf there is NaN.
//   chain        y: one chain of fma per element from +0, (c, u, v) ascending: the bits of pad,
//                unfold and matmul. dx: one chain from +0, (f, u, v) ascending, over those u and v
//                for which h + padding - u dilation is a multiple of the stride (w likewise); a
//                place outside dy takes part as +0. dweight: places (n, i, j) in row-major order
//                are cut into chunks (host/chunks.h: by shape alone, 512 places or more, at most
//                64 chunks); each is one chain from +0, sums of chunks are added left to right
//   tensor_core  blocks of 16 products (TF32: 8), as matmul. y: k = (u, v, c), c innermost; each
//                tap begins a block where there are 16 channels or more. dx: k = (u, v, f), of the
//                same taps as above. dweight: chunks of whole 64 places, summed as above
//   exact        integers of 23 bits, their sum exact. One exponent for all of a group's channels
//                of an image and one for each filter (y) or channel (dx) of the weight; dweight:
//                one for each channel of x and each filter of dy
// conv2d_input is what conv_transpose2d computes forward.
//
// Gradients. Each of the three ops is the gradient of the other two. Backward keeps the input that
// the gradient of the other one needs: weight for dx, x for dweight.
//
// Dtypes. T in {float, double, f16, bf16}; arithmetic in double for double, in float for all
// others. conv2d also takes int8_t and gives int32_t, exactly; C / groups * KH * KW is at most
// 131,071. A NaN result is the quiet one without a payload.
//
// Views. Any strides, 0 and negative ones too. N, C and F may be 0; the kernel fits into the padded
// image. The output overlaps nothing.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device).
#pragma once

#include "planck/ops/conv/conv.problem.h"

namespace planck {

struct Conv2dDescriptor {
  Shape x, weight;  // of conv2d, for its gradients too
  Conv2dOptions options = {};
  std::optional<ProductMath> math = {};  // none: the dtype's default
};

template <class T>
concept ConvElement = Float<T> || std::same_as<T, std::int8_t>;
template <ConvElement T>
using ConvOutput = std::conditional_t<std::is_same_v<T, std::int8_t>, std::int32_t, T>;

template <ConvElement T>
struct Conv2dPlanOp {
  using Problem = ConvProblem;
  using Descriptor = Conv2dDescriptor;
  struct Args {
    TensorView<const T> x, weight;
    TensorView<ConvOutput<T>> y;
  };
  static ConvProblem problem(const Descriptor& d) {
    return {ConvKind::conv2d, dtype_of<T>, d.x,
            d.weight,         d.options,   d.math.value_or(default_product_math(dtype_of<T>))};
  }
  static Operands operands(const Args& a) { return {a.x, a.weight, a.y}; }
};

template <Float T>
struct Conv2dInputPlanOp {
  using Problem = ConvProblem;
  using Descriptor = Conv2dDescriptor;
  struct Args {
    TensorView<const T> dy, weight;
    TensorView<T> dx;
  };
  static ConvProblem problem(const Descriptor& d) {
    return {ConvKind::conv2d_input,
            dtype_of<T>,
            d.x,
            d.weight,
            d.options,
            d.math.value_or(default_product_math(dtype_of<T>))};
  }
  static Operands operands(const Args& a) { return {a.dy, a.weight, a.dx}; }
};

template <Float T>
struct Conv2dWeightPlanOp {
  using Problem = ConvProblem;
  using Descriptor = Conv2dDescriptor;
  struct Args {
    TensorView<const T> x, dy;
    TensorView<T> dweight;
  };
  static ConvProblem problem(const Descriptor& d) {
    return {ConvKind::conv2d_weight,
            dtype_of<T>,
            d.x,
            d.weight,
            d.options,
            d.math.value_or(default_product_math(dtype_of<T>))};
  }
  static Operands operands(const Args& a) { return {a.x, a.dy, a.dweight}; }
};

template <ConvElement T>
using Conv2dPlan = Plan<Conv2dPlanOp<T>>;
template <Float T>
using Conv2dInputPlan = Plan<Conv2dInputPlanOp<T>>;
template <Float T>
using Conv2dWeightPlan = Plan<Conv2dWeightPlanOp<T>>;

}  // namespace planck
