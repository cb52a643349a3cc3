// Quantization of tensors, with straight-through gradients.
//
// For element i, with scale s and zero point z of its group:
//   quantize            q  = clamp(rint(x / s) + z, q_min, q_max)
//                       rint: to nearest, ties to even; x / s: true division
//     backward          dx = dy / s  where q_min <= rint(x / s) + z <= q_max, else 0
//   dequantize          x  = s * (q − z)
//     backward          dq = s * dy  (a float tensor: straight through)
//   fake_quantize       y  = s * (clamp(rint(x / s) + z, q_min, q_max) − z)
//     backward          dx = dy  in range, else 0
//     learnable         dscale      = Σ dy * (in range ? (q − z) − x / s : (q − z))
//                       dzero_point = Σ dy * (in range ? 0 : −s)
//   dynamic_quantize    s and z from the data, then quantize; r = the finite values of the group,
//                       and 0
//     symmetric         s = max|r| / (q_max − z),  z = the middle of [q_min, q_max]: 0 for s8, s4
//     affine            s = (max r − min r) / (q_max − q_min),  z = q_min − rint(min r / s)
//                       s is rounded to the tensor's dtype before it is used; a group of zeros gets
//                       s = 1
//
// Backward reads no results of forward: quantize and fake_quantize take x, scale and zero_point
// again, dequantize the scale.
//
// Groups.
//   PerTensor    one
//   PerChannel   one per index of `axis`
//   PerToken     one per row along the last axis, over all leading axes
//   PerGroup     one per run of `group` elements along the last axis
// scale and zero_point have as many elements as there are groups, in row-major order and any shape.
//
// Dtypes. TIn in {float, double, f16, bf16} × TOut in {int8_t, uint8_t, s4, u4}. scale, dscale and
// dzero_point have TIn's dtype, zero_point is int32. s4 and u4 are packed two to a byte, the even
// index in the low nibble; the last extent is even. Arithmetic is in double for double, in float
// for all others, rounded once at the store.
//
// Views. Any rank up to 8 and any strides; a packed output needs one axis of stride 1 with an even
// extent and even strides on all others. An output may be the very same view as an input of its
// element size, and overlaps nothing else.
//
// Total. ±Inf and huge values saturate whatever z is. NaN gives clamp(z, q_min, q_max) and passes
// no gradient; s = 0 follows IEEE division. A NaN result is always the quiet one without a payload.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device). Sums
// run in the canonical pairwise order (docs/numerics.md). QuantMath::reciprocal uses x * (1 / s)
// instead of x / s: the bits of frameworks that multiply.
#pragma once

#include "planck/ops/quantize/quantize.problem.h"

namespace planck {

// What a descriptor says about its groups.
struct PerTensor {
  static constexpr Granularity kind = Granularity::per_tensor;
};
struct PerChannel {
  static constexpr Granularity kind = Granularity::per_channel;
  int axis = 0;
};
struct PerToken {
  static constexpr Granularity kind = Granularity::per_token;
};
struct PerGroup {
  static constexpr Granularity kind = Granularity::per_group;
  std::int64_t group = 128;
};

// One descriptor for the whole family; each op reads its own fields. An unset range is the integer
// dtype's own.
template <class Groups>
struct QuantDescriptor {
  Shape shape;
  Groups groups = {};
  std::optional<std::int32_t> q_min = {}, q_max = {};
  QuantMath math = QuantMath::divide;
  bool learnable = false;  // FakeQuantize…Backward: also dscale and dzero_point
  bool symmetric = true;   // DynamicQuantize…
};

// Ops: each names its Args and where they go.
template <QuantKind kKind, class Groups, Float TIn, QuantizedInt TOut, class ArgsType>
struct QuantOp {
  using Problem = QuantProblem;
  using Descriptor = QuantDescriptor<Groups>;
  using Args = ArgsType;

  static QuantProblem problem(const Descriptor& d) {
    QuantProblem p;
    p.kind = kKind;
    p.granularity = Groups::kind;
    p.element_dtype = dtype_of<TIn>;
    p.dtype = dtype_of<TOut>;
    p.shape = d.shape;
    if constexpr (requires { d.groups.axis; }) p.axis = d.groups.axis;
    if constexpr (requires { d.groups.group; }) p.group = d.groups.group;
    p.range = IntRange{d.q_min.value_or(p.lowest()), d.q_max.value_or(p.highest())};
    p.math = d.math;
    p.learnable = kKind == QuantKind::fake_quantize_backward && d.learnable;
    p.symmetric = d.symmetric;
    return p;
  }
  static Operands operands(const Args& a) { return a.operands(); }
};

template <Float TIn, QuantizedInt TOut>
struct QuantizeArgs {
  TensorView<const TIn> x, scale;
  TensorView<const std::int32_t> zero_point;
  TensorView<TOut> q;
  Operands operands() const { return {x, scale, zero_point, q}; }
};
template <Float TIn, QuantizedInt TOut>
struct QuantizeBackwardArgs {
  TensorView<const TIn> dy, x, scale;
  TensorView<const std::int32_t> zero_point;
  TensorView<TIn> dx;
  Operands operands() const { return {dy, x, scale, zero_point, dx}; }
};
template <Float TIn, QuantizedInt TOut>
struct DequantizeArgs {
  TensorView<const TOut> q;
  TensorView<const TIn> scale;
  TensorView<const std::int32_t> zero_point;
  TensorView<TIn> x;
  Operands operands() const { return {q, scale, zero_point, x}; }
};
template <Float TIn, QuantizedInt TOut>
struct DequantizeBackwardArgs {
  TensorView<const TIn> dy, scale;
  TensorView<TIn> dq;
  Operands operands() const { return {dy, scale, dq}; }
};
template <Float TIn, QuantizedInt TOut>
struct FakeQuantizeArgs {
  TensorView<const TIn> x, scale;
  TensorView<const std::int32_t> zero_point;
  TensorView<TIn> y;
  Operands operands() const { return {x, scale, zero_point, y}; }
};
template <Float TIn, QuantizedInt TOut>
struct FakeQuantizeBackwardArgs {
  TensorView<const TIn> dy, x, scale;
  TensorView<const std::int32_t> zero_point;
  TensorView<TIn> dx;
  TensorView<TIn> dscale = {}, dzero_point = {};  // with learnable; either may be left out
  Operands operands() const { return {dy, x, scale, zero_point, dx, dscale, dzero_point}; }
};
template <Float TIn, QuantizedInt TOut>
struct DynamicQuantizeArgs {
  TensorView<const TIn> x;
  TensorView<TOut> q;
  TensorView<TIn> scale;
  TensorView<std::int32_t> zero_point;
  Operands operands() const { return {x, q, scale, zero_point}; }
};

using QuantizePerTensorDescriptor = QuantDescriptor<PerTensor>;
using QuantizePerChannelDescriptor = QuantDescriptor<PerChannel>;
using QuantizePerTokenDescriptor = QuantDescriptor<PerToken>;
using QuantizePerGroupDescriptor = QuantDescriptor<PerGroup>;

template <class Groups, Float TIn, QuantizedInt TOut>
using QuantizePlan = Plan<QuantOp<QuantKind::quantize, Groups, TIn, TOut, QuantizeArgs<TIn, TOut>>>;
template <Float TIn, QuantizedInt TOut>
using QuantizePerTensorPlan = QuantizePlan<PerTensor, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using QuantizePerChannelPlan = QuantizePlan<PerChannel, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using QuantizePerTokenPlan = QuantizePlan<PerToken, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using QuantizePerGroupPlan = QuantizePlan<PerGroup, TIn, TOut>;

template <class Groups, Float TIn, QuantizedInt TOut>
using QuantizeBackwardPlan =
    Plan<QuantOp<QuantKind::quantize_backward, Groups, TIn, TOut, QuantizeBackwardArgs<TIn, TOut>>>;
template <Float TIn, QuantizedInt TOut>
using QuantizePerTensorBackwardPlan = QuantizeBackwardPlan<PerTensor, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using QuantizePerChannelBackwardPlan = QuantizeBackwardPlan<PerChannel, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using QuantizePerTokenBackwardPlan = QuantizeBackwardPlan<PerToken, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using QuantizePerGroupBackwardPlan = QuantizeBackwardPlan<PerGroup, TIn, TOut>;

template <class Groups, Float TIn, QuantizedInt TOut>
using DequantizePlan =
    Plan<QuantOp<QuantKind::dequantize, Groups, TIn, TOut, DequantizeArgs<TIn, TOut>>>;
template <Float TIn, QuantizedInt TOut>
using DequantizePerTensorPlan = DequantizePlan<PerTensor, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using DequantizePerChannelPlan = DequantizePlan<PerChannel, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using DequantizePerTokenPlan = DequantizePlan<PerToken, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using DequantizePerGroupPlan = DequantizePlan<PerGroup, TIn, TOut>;

template <class Groups, Float TIn, QuantizedInt TOut>
using DequantizeBackwardPlan = Plan<
    QuantOp<QuantKind::dequantize_backward, Groups, TIn, TOut, DequantizeBackwardArgs<TIn, TOut>>>;
template <Float TIn, QuantizedInt TOut>
using DequantizePerTensorBackwardPlan = DequantizeBackwardPlan<PerTensor, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using DequantizePerChannelBackwardPlan = DequantizeBackwardPlan<PerChannel, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using DequantizePerTokenBackwardPlan = DequantizeBackwardPlan<PerToken, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using DequantizePerGroupBackwardPlan = DequantizeBackwardPlan<PerGroup, TIn, TOut>;

template <class Groups, Float TIn, QuantizedInt TOut>
using FakeQuantizePlan =
    Plan<QuantOp<QuantKind::fake_quantize, Groups, TIn, TOut, FakeQuantizeArgs<TIn, TOut>>>;
template <Float TIn, QuantizedInt TOut>
using FakeQuantizePerTensorPlan = FakeQuantizePlan<PerTensor, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using FakeQuantizePerChannelPlan = FakeQuantizePlan<PerChannel, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using FakeQuantizePerTokenPlan = FakeQuantizePlan<PerToken, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using FakeQuantizePerGroupPlan = FakeQuantizePlan<PerGroup, TIn, TOut>;

template <class Groups, Float TIn, QuantizedInt TOut>
using FakeQuantizeBackwardPlan = Plan<QuantOp<QuantKind::fake_quantize_backward, Groups, TIn, TOut,
                                              FakeQuantizeBackwardArgs<TIn, TOut>>>;
template <Float TIn, QuantizedInt TOut>
using FakeQuantizePerTensorBackwardPlan = FakeQuantizeBackwardPlan<PerTensor, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using FakeQuantizePerChannelBackwardPlan = FakeQuantizeBackwardPlan<PerChannel, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using FakeQuantizePerTokenBackwardPlan = FakeQuantizeBackwardPlan<PerToken, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using FakeQuantizePerGroupBackwardPlan = FakeQuantizeBackwardPlan<PerGroup, TIn, TOut>;

template <class Groups, Float TIn, QuantizedInt TOut>
using DynamicQuantizePlan =
    Plan<QuantOp<QuantKind::dynamic_quantize, Groups, TIn, TOut, DynamicQuantizeArgs<TIn, TOut>>>;
template <Float TIn, QuantizedInt TOut>
using DynamicQuantizePerTensorPlan = DynamicQuantizePlan<PerTensor, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using DynamicQuantizePerChannelPlan = DynamicQuantizePlan<PerChannel, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using DynamicQuantizePerTokenPlan = DynamicQuantizePlan<PerToken, TIn, TOut>;
template <Float TIn, QuantizedInt TOut>
using DynamicQuantizePerGroupPlan = DynamicQuantizePlan<PerGroup, TIn, TOut>;

}  // namespace planck
