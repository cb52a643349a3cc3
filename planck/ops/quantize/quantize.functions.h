// Quantization on tensors. A quantized tensor is integers with their scale, zero point and scheme
// (backend/quantized_tensor.h). Gradients pass straight through it. shapes.functions.h sees it in
// other shapes.
#pragma once

#include "planck/backend/call.h"
#include "planck/backend/quantized_tensor.h"
#include "planck/ops/elementwise/elementwise.functions.h"
#include "planck/ops/matmul/matmul.functions.h"
#include "planck/ops/quantize/quantize.ops.h"
#include "planck/ops/quantize/shapes.functions.h"
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
// scale (values − zero_point). The gradient of the integers is scale · dy, a float tensor (f32 for
// 16-bit floats); that of a tracked scale Σ dy (values − zero_point).
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
// product with both scales in the compute type, rounded once to theirs. a is quantized per tensor
// or per token, b per tensor or per channel along its last axis. Gradients are those of
// dequantize(a) × dequantize(b).
template <class B>
Tensor<B> q_matmul(const QuantizedTensor<B>& a, const QuantizedTensor<B>& b) {
  const auto [rows, columns] =
      value_or_throw(factor_groups(a.scheme(), a.shape(), b.scheme(), b.shape()));
  const Dtype dtype = a.scale().dtype(), compute = compute_dtype(dtype);
  if (b.scale().dtype() != dtype)
    refuse("q_matmul: the scale of a is {}, that of b is {}: must be the same",
           {dtype, b.scale().dtype()});
  const auto steps = call(StepsMatmul{a.scheme(), b.scheme(), rows, columns, compute}, a.codes(),
                          a.zero_point(), b.codes(), b.zero_point());
  const auto scaled = [&](const Tensor<B>& scale, const Shape& groups) {
    return reshape(scale, groups).to(compute);
  };
  return (steps * scaled(a.scale(), rows) * scaled(b.scale(), columns)).to(dtype);
}

}  // namespace planck
