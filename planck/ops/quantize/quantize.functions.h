// Quantization on tensors. A QuantizedTensor is integers with their scale, zero point and scheme.
#pragma once

#include "planck/backend/call.h"
#include "planck/ops/elementwise/elementwise.functions.h"
#include "planck/ops/matmul/matmul.functions.h"
#include "planck/ops/quantize/quantize.ops.h"
#include "planck/ops/reduce/reduce.functions.h"

namespace planck {

// B's quantized tensors as people hold them.
template <class B>
struct QuantizedTensor {
  Tensor<B, IntKind> values;
  Tensor<B> scale;
  Tensor<B, IntKind> zero_point;
  QuantScheme scheme;
};

// clamp(rint(x / scale) + zero_point), group by group of the scheme.
template <class B>
QuantizedTensor<B> quantize(const Tensor<B>& x, const Tensor<B>& scale,
                            const Tensor<B, IntKind>& zero_point, const QuantScheme& scheme = {}) {
  return {call(Quantize{scheme}, x, scale, zero_point), scale, zero_point, scheme};
}
// Scale and zero point from x itself. Nothing is differentiated through them.
template <class B>
QuantizedTensor<B> dynamic_quantize(const Tensor<B>& x, const QuantScheme& scheme = {},
                                    bool symmetric = true) {
  const auto source = [&] {
    if constexpr (AutodiffBackend<B>)
      return x.detach();
    else
      return x;
  }();
  auto [values, scale, zero_point] = call(DynamicQuantize{scheme, symmetric}, source);
  return {values, scale, zero_point, scheme};
}
// scale (values − zero_point)
template <class B>
Tensor<B> dequantize(const QuantizedTensor<B>& q) {
  return call(Dequantize{q.scheme}, q.values, q.scale, q.zero_point);
}
// Rounds to what quantizing would keep; the gradient passes straight through within the range.
// Where scale is tracked, it gets its own gradient (a learned step size).
template <class B>
Tensor<B> fake_quantize(const Tensor<B>& x, const Tensor<B>& scale,
                        const Tensor<B, IntKind>& zero_point, const QuantScheme& scheme = {}) {
  return call(FakeQuantize{scheme}, x, scale, zero_point);
}

// a [..., M, K] × b [..., K, N] for s8 with zero points of 0: exact integer sums, then one product
// with both scales. a is quantized per tensor or per token, b per tensor or per channel along its
// last axis.
template <class B>
Tensor<B> q_matmul(const QuantizedTensor<B>& a, const QuantizedTensor<B>& b) {
  for (const auto* q : {&a, &b}) {
    const char* which = q == &a ? "a" : "b";
    if (q->values.dtype() != Dtype::s8)
      refuse(ErrorCode::unsupported, "q_matmul: {} is {}, both must be s8",
             {which, q->values.dtype()});
    const auto nonzero = any(ne(q->zero_point, zeros_like(q->zero_point)));
    if (nonzero.template to_vector<std::uint8_t>()[0] != 0)
      refuse(ErrorCode::unsupported, "q_matmul: {} has a zero point that is not 0", {which});
  }
  const int rank_b = b.values.rank();
  Shape rows = a.values.shape(), columns = {};
  rows[a.values.rank() - 1] = 1;
  columns.push_back(b.values.shape()[rank_b - 1]);
  const auto scale_of = [&](const QuantizedTensor<B>& q, Granularity many, bool fits,
                            const Shape& shape) {
    if (q.scheme.granularity == Granularity::per_tensor) return reshape(q.scale, {1});
    if (q.scheme.granularity != many || !fits)
      raise(ErrorCode::unsupported,
            "q_matmul: a must be per tensor or per token, b per tensor or per channel of its last "
            "axis");
    return reshape(q.scale, shape);
  };
  const auto scale_a = scale_of(a, Granularity::per_token, true, rows);
  const int axis = b.scheme.axis < 0 ? b.scheme.axis + rank_b : b.scheme.axis;
  const auto scale_b = scale_of(b, Granularity::per_channel, axis == rank_b - 1, columns);
  const auto sums = to_float(matmul(a.values, b.values), a.scale.dtype());
  return sums * scale_a * scale_b;
}

}  // namespace planck
