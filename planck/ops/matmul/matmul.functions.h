// matmul(a, b) on tensors: [..., M, K] × [..., K, N] → [..., M, N], batch axes broadcast; and what
// follows a product, in the kernel that computes it.
#pragma once

#include "planck/autodiff/grad_mode.h"
#include "planck/ops/elementwise/elementwise.functions.h"
#include "planck/ops/matmul/matmul.ops.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck {

struct MatmulOptions {
  std::string_view kernel = {};              // one by name, as "cpu:openblas"
  std::optional<ProductMath> math = {};      // none: as the device of the tensors says
  Activation activation = Activation::none;  // of floats, after the bias and before the residual
};

namespace matmul_detail {

// What follows a product whose batches become rows of one: a bias as it is, a residual in rows.
template <class B, class K>
Tensor<B, K> in_rows(const Tensor<B, K>& follows, const Shape& product, std::int64_t rows) {
  if (follows.rank() == 1) return follows;
  if (follows.shape() != product)
    refuse("matmul: the residual has shape {}, the product {}", {follows.shape(), product});
  return reshape(follows, {rows, product[product.rank() - 1]});
}

// Products of matrices of any batch axes, with what follows them.
template <class B, class K, class... Follows>
Tensor<B, K> broadcast(const Tensor<B, K>& a, const Tensor<B, K>& b, const Matmul& op,
                       const Follows&... follows) {
  if (a.rank() < 2 || b.rank() < 2)
    refuse("matmul: shapes {} and {}: both need rank 2 or more", {a.shape(), b.shape()});
  if (b.rank() == 2 && a.rank() > 2) {  // one matrix for all: rows of all batches in one product
    Shape shape = a.shape();
    shape[a.rank() - 1] = b.shape()[1];
    std::int64_t rows = 1;  // counted: where K is 0, no element tells
    for (int d = 0; d + 1 < a.rank(); ++d) rows *= a.shape()[d];
    return reshape(
        call(op, reshape(a, {rows, a.shape()[a.rank() - 1]}), b, in_rows(follows, shape, rows)...),
        shape);
  }
  Shape batch_a, batch_b;
  for (int d = 0; d + 2 < a.rank(); ++d) batch_a.push_back(a.shape()[d]);
  for (int d = 0; d + 2 < b.rank(); ++d) batch_b.push_back(b.shape()[d]);
  if (batch_a == batch_b) return call(op, a, b, follows...);
  Shape wide_a = value_or_throw(broadcast_shape("matmul", batch_a, batch_b)), wide_b = wide_a;
  for (int d = 2; d > 0; --d) {
    wide_a.push_back(a.shape()[a.rank() - d]);
    wide_b.push_back(b.shape()[b.rank() - d]);
  }
  return call(op, expand(a, wide_a), expand(b, wide_b), follows...);
}

template <class B>
Tensor<B> activated(Activation a, Tensor<B> x) {
  switch (a) {
    case Activation::relu:
      return relu(std::move(x));
    case Activation::gelu:
      return gelu(std::move(x));
    case Activation::silu:
      return silu(std::move(x));
    default:
      return x;
  }
}

// Whether a gradient will ask for what an activation is taken of. Then an op of its own applies it,
// which keeps that: writing it as well costs a kernel what reading it costs the op.
template <class B, class... T>
bool keeps(const Tensor<B>& a, const T&... other) {
  if constexpr (AutodiffBackend<B>)
    return grad_enabled() && (a.is_tracked() || (other.is_tracked() || ...));
  return false;
}

// What follows the product, in it where the backend's products can. Bias: one or none; the residual
// is null where there is none.
template <bool kResidual, class B, class... Bias>
Tensor<B> followed(const Tensor<B>& a, const Tensor<B>& b, const MatmulOptions& options,
                   const Tensor<B>* residual, const Bias&... bias) {
  [[maybe_unused]] const auto check = [&](const Tensor<B>& of) {
    if (b.rank() > 1 && of.shape() != Shape{b.shape()[b.rank() - 1]})
      refuse("matmul: the bias has shape {}, b has {} columns",
             {of.shape(), b.shape()[b.rank() - 1]});
  };
  (check(bias), ...);
  const auto by_ops = [&](Tensor<B> z) {
    auto y = activated(options.activation, std::move(z));
    if constexpr (kResidual) y = std::move(y) + *residual;
    return y;
  };
  if constexpr (requires { a.device().device().kind; }) {
    if (options.activation != Activation::none && keeps(a, b, bias...))
      return by_ops(broadcast(a, b, Matmul{options.kernel, options.math}, bias...));
    const Matmul op{options.kernel, options.math, options.activation, kResidual};
    if constexpr (kResidual)
      return broadcast(a, b, op, bias..., *residual);
    else
      return broadcast(a, b, op, bias...);
  } else {
    return by_ops((broadcast(a, b, Matmul{options.kernel, options.math}) + ... + bias));
  }
}

}  // namespace matmul_detail

// [..., M, K] × [..., K, N] → [..., M, N]
template <class B, class K>
Tensor<B, K> matmul(const Tensor<B, K>& a, const Tensor<B, K>& b, MatmulOptions options = {}) {
  if constexpr (std::same_as<K, FloatKind>)
    return matmul_detail::followed<false, B>(a, b, options, nullptr);
  else
    return matmul_detail::broadcast(a, b, Matmul{options.kernel, options.math, options.activation});
}
// The same with a bias [N] added to every row; the bits of matmul(a, b) + bias.
template <class B>
Tensor<B> matmul(const Tensor<B>& a, const Tensor<B>& b, const Tensor<B>& bias,
                 MatmulOptions options = {}) {
  return matmul_detail::followed<false, B>(a, b, options, nullptr, bias);
}
// The same with a bias, or std::nullopt, and a residual that is added last; the bits of
// matmul(a, b, bias, options) + residual.
template <class B>
Tensor<B> matmul(const Tensor<B>& a, const Tensor<B>& b,
                 const std::type_identity_t<std::optional<Tensor<B>>>& bias,
                 const Tensor<B>& residual, MatmulOptions options = {}) {
  return bias ? matmul_detail::followed<true, B>(a, b, options, &residual, *bias)
              : matmul_detail::followed<true, B>(a, b, options, &residual);
}

}  // namespace planck
