// Quantization on tensors. A quantized tensor is integers with their scale, zero point and scheme
// (backend/quantized_tensor.h). Gradients pass straight through it.
#pragma once

#include "planck/backend/call.h"
#include "planck/backend/quantized_tensor.h"
#include "planck/ops/elementwise/elementwise.functions.h"
#include "planck/ops/matmul/matmul.functions.h"
#include "planck/ops/quantize/quantize.ops.h"
#include "planck/ops/reduce/reduce.functions.h"

namespace planck {

// clamp(rint(x / scale) + zero_point), group by group of the scheme. The gradient passes straight
// through to x within the range, and to a tracked scale.
template <class B>
QuantizedTensor<B> quantize(const Tensor<B>& x, const Tensor<B>& scale,
                            const Tensor<B, IntKind>& zero_point, const QuantScheme& scheme = {}) {
  return {call(Quantize{scheme}, x, scale, zero_point), scale, zero_point, scheme};
}
// Scale and zero point from x itself. The gradient passes straight through to x; scale and zero
// point count as constants.
template <class B>
QuantizedTensor<B> dynamic_quantize(const Tensor<B>& x, const QuantScheme& scheme = {},
                                    bool symmetric = true) {
  auto [codes, scale, zero_point] = call(DynamicQuantize{scheme, symmetric}, x);
  if constexpr (AutodiffBackend<B>)
    return {codes, scale.detach(), zero_point, scheme};
  else
    return {codes, scale, zero_point, scheme};
}
// scale (values − zero_point). The gradient of the integers is scale · dy, a float tensor; that of
// a tracked scale Σ dy (values − zero_point).
template <class B>
Tensor<B> dequantize(const QuantizedTensor<B>& q) {
  return call(Dequantize{q.scheme()}, q.codes(), q.scale(), q.zero_point());
}
// Rounds to what quantizing would keep; the gradient passes straight through within the range.
// Where scale is tracked, it gets its own gradient (a learned step size).
template <class B>
Tensor<B> fake_quantize(const Tensor<B>& x, const Tensor<B>& scale,
                        const Tensor<B, IntKind>& zero_point, const QuantScheme& scheme = {}) {
  return call(FakeQuantize{scheme}, x, scale, zero_point);
}

// The same integers in another shape; one extent may be −1. Groups must stay whole: a channel axis
// an axis, the last extent of tokens, for groups a last extent that they divide.
template <class B>
QuantizedTensor<B> reshape(const QuantizedTensor<B>& q, const Shape& shape) {
  const auto whole = value_or_throw(complete_shape("reshape", shape, q.numel()));
  const auto scheme = value_or_throw(reshaped(q.scheme(), q.shape(), whole));
  return {reshape(q.codes(), whole), q.scale(), q.zero_point(), scheme};
}
// Axis d of the result is axis axes[d] of q. Of tokens and groups the last axis stays the last.
template <class B>
QuantizedTensor<B> permute(const QuantizedTensor<B>& q, const Extents& axes) {
  const auto codes = permute(q.codes(), axes);
  Extents from_front = axes;
  for (int d = 0; d < axes.rank(); ++d)
    if (axes[d] < 0) from_front[d] += axes.rank();
  const auto [scheme, moves, unused] = value_or_throw(permuted(q.scheme(), q.shape(), from_front));
  if (!moves) return {codes, q.scale(), q.zero_point(), scheme};
  const Shape groups = q.scheme().group_shape(q.shape());
  return {codes, permute(reshape(q.scale(), groups), *moves),
          permute(reshape(q.zero_point(), groups), *moves), scheme};
}
// Elements start, start + step, … before stop, as q[start:stop:step] in Python, with the scales
// they need. Groups along the last axis are taken whole; 4-bit integers from even positions of it.
template <class B>
QuantizedTensor<B> slice(const QuantizedTensor<B>& q, int axis, std::int64_t start,
                         std::int64_t stop = INT64_MAX, std::int64_t step = 1) {
  const int at = value_or_throw(checked_axis("slice", axis, q.rank()));
  const auto codes = slice(q.codes(), at, start, stop, step);
  const auto s = SliceAxis{at, start, stop, step}.span(q.shape()[at]);
  const auto moved = value_or_throw(sliced(q.scheme(), q.shape(), at, s.first, s.count, s.step));
  if (!moved.slice) return {codes, q.scale(), q.zero_point(), moved.scheme};
  const Shape groups = q.scheme().group_shape(q.shape());
  const auto taken = [&](const auto& t) {
    const auto& [d, first, count, by] = *moved.slice;
    if (count == 0) return slice(reshape(t, groups), d, 0, 0);
    // One before the first, counted from the end, where a slice goes down to element 0.
    const std::int64_t end = first + count * by;
    return slice(reshape(t, groups), d, first, end < 0 ? INT64_MAX : end, by);
  };
  return {codes, taken(q.scale()), taken(q.zero_point()), moved.scheme};
}

// Σ (a − za) (b − zb) over K, exact in integers and rounded once to `dtype`: a [..., M, K] and
// b [..., K, N] in s8 or u8. Gradients are floats, straight through to the integers.
struct StepsMatmul {
  static constexpr std::string_view name = "q_matmul";
  static constexpr bool computes = true;
  using Gives = FloatKind;
  QuantScheme a, b;
  Shape groups_a, groups_b;  // in which zero points broadcast over the product
  Dtype dtype = Dtype::f32;

  template <class B>
  Tensor<B> compute(const Tensor<B, IntKind>& left, const Tensor<B, IntKind>& zero_left,
                    const Tensor<B, IntKind>& right, const Tensor<B, IntKind>& zero_right) const {
    const auto a8 = as_s8(left), b8 = as_s8(right);
    const auto sums = matmul(a8, b8);
    const auto za = zero_left.template to_vector<std::int32_t>();
    const auto zb = zero_right.template to_vector<std::int32_t>();
    const int shift_a = shift(a), shift_b = shift(b);
    check_zero_points(name, za);
    check_zero_points(name, zb);
    const bool plain_a = all_are(za, shift_a), plain_b = all_are(zb, shift_b);
    if (plain_a && plain_b) return to_float(sums, dtype);
    // Σ a b − za Σ b − zb Σ a + K za zb, of s8 values and their zero points
    const auto of_a = reshape(to_int(zero_left), groups_a) - shift_a;
    const auto of_b = reshape(to_int(zero_right), groups_b) - shift_b;
    auto exact = to_int(sums);
    if (!plain_a) exact = exact - of_a * sum(to_int(b8), -2, true);
    if (!plain_b) exact = exact - of_b * sum(to_int(a8), -1, true);
    if (!plain_a && !plain_b) exact = exact + of_a * of_b * left.extent(-1);
    return to_float(exact, dtype);
  }
  // What u8 values lose on their way to s8.
  static int shift(const QuantScheme& scheme) { return scheme.dtype == Dtype::u8 ? 128 : 0; }
  static bool all_are(const std::vector<std::int32_t>& values, int value) {
    for (std::int32_t v : values)
      if (v != value) return false;
    return true;
  }
  template <class B>
  static Tensor<B, IntKind> as_s8(const Tensor<B, IntKind>& t) {
    if (t.dtype() == Dtype::s8) return t;
    return to_int(to_int(t, Dtype::i32) - 128, Dtype::s8);
  }
};
// a [..., M, K] × b [..., K, N] for s8 and u8 with any zero points: exact integer sums, then one
// product with both scales. a is quantized per tensor or per token, b per tensor or per channel
// along its last axis. Gradients are those of dequantize(a) × dequantize(b).
template <class B>
Tensor<B> q_matmul(const QuantizedTensor<B>& a, const QuantizedTensor<B>& b) {
  const auto [rows, columns] =
      value_or_throw(factor_groups(a.scheme(), a.shape(), b.scheme(), b.shape()));
  const auto steps = call(StepsMatmul{a.scheme(), b.scheme(), rows, columns, a.scale().dtype()},
                          a.codes(), a.zero_point(), b.codes(), b.zero_point());
  return steps * reshape(a.scale(), rows) * reshape(b.scale(), columns);
}

}  // namespace planck
