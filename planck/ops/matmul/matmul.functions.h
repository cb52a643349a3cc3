// matmul(a, b) on tensors: [..., M, K] × [..., K, N] → [..., M, N], batch axes broadcast.
#pragma once

#include "planck/ops/matmul/matmul.ops.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck {

struct MatmulOptions {
  std::string_view kernel = {};          // one by name, as "cpu:openblas"
  std::optional<ProductMath> math = {};  // none: as the device of the tensors says
};

namespace matmul_detail {

// Products of matrices of any batch axes, with a bias where there is one.
template <class B, class K, class... Bias>
Tensor<B, K> broadcast(const Tensor<B, K>& a, const Tensor<B, K>& b, const MatmulOptions& options,
                       const Bias&... bias) {
  if (a.rank() < 2 || b.rank() < 2)
    refuse("matmul: shapes {} and {}: both need rank 2 or more", {a.shape(), b.shape()});
  const Matmul op{options.kernel, options.math};
  if (b.rank() == 2 && a.rank() > 2) {  // one matrix for all: rows of all batches in one product
    Shape shape = a.shape();
    shape[a.rank() - 1] = b.shape()[1];
    std::int64_t rows = 1;  // counted: where K is 0, no element tells
    for (int d = 0; d + 1 < a.rank(); ++d) rows *= a.shape()[d];
    return reshape(call(op, reshape(a, {rows, a.shape()[a.rank() - 1]}), b, bias...), shape);
  }
  Shape batch_a, batch_b;
  for (int d = 0; d + 2 < a.rank(); ++d) batch_a.push_back(a.shape()[d]);
  for (int d = 0; d + 2 < b.rank(); ++d) batch_b.push_back(b.shape()[d]);
  if (batch_a == batch_b) return call(op, a, b, bias...);
  Shape wide_a = value_or_throw(broadcast_shape("matmul", batch_a, batch_b)), wide_b = wide_a;
  for (int d = 2; d > 0; --d) {
    wide_a.push_back(a.shape()[a.rank() - d]);
    wide_b.push_back(b.shape()[b.rank() - d]);
  }
  return call(op, expand(a, wide_a), expand(b, wide_b), bias...);
}

}  // namespace matmul_detail

// [..., M, K] × [..., K, N] → [..., M, N]
template <class B, class K>
Tensor<B, K> matmul(const Tensor<B, K>& a, const Tensor<B, K>& b, MatmulOptions options = {}) {
  return matmul_detail::broadcast(a, b, options);
}
// The same with a bias [N] added to every row; the bits of matmul(a, b) + bias. On the CPU the
// product adds it itself.
template <class B>
Tensor<B> matmul(const Tensor<B>& a, const Tensor<B>& b, const Tensor<B>& bias,
                 MatmulOptions options = {}) {
  if (b.rank() > 1 && bias.shape() != Shape{b.shape()[b.rank() - 1]})
    refuse("matmul: the bias has shape {}, b has {} columns",
           {bias.shape(), b.shape()[b.rank() - 1]});
  if constexpr (requires { a.device().device().kind; })
    if (a.device().device().kind == DeviceKind::cpu)
      return matmul_detail::broadcast(a, b, options, bias);
  return matmul_detail::broadcast(a, b, options) + bias;
}

}  // namespace planck
