// Gradient of C = A B + bias: dA = dC Bᵀ, dB = Aᵀ dC, dbias = Σ dC over rows; a residual gets dC.
// Of an activation's argument only A, B and the bias are kept: it is computed again.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/elementwise/elementwise.grad.h"
#include "planck/ops/matmul/einsum.functions.h"
#include "planck/ops/matmul/matmul.functions.h"
#include "planck/ops/reduce/reduce.functions.h"

namespace planck {

namespace matmul_detail {

// Whether columns of a matrix lie densely, as those of a transposed weight do.
template <class T>
bool lies_by_columns(const T& x) {
  if constexpr (requires { x.value.view.strides; }) {
    const auto& strides = x.value.view.strides;
    return strides[strides.rank() - 2] == 1 && strides[strides.rank() - 1] != 1;
  } else {
    return false;
  }
}

// The gradient of x, where dy is that of its activation.
template <class T>
T before_activation(Activation a, const T& dy, const T& x) {
  switch (a) {
    case Activation::relu:
      return relu_backward(dy, x);
    case Activation::gelu:
      return gelu_backward(dy, x);
    case Activation::silu:
      return silu_gradient(dy, x);
    default:
      return dy;
  }
}

}  // namespace matmul_detail

template <class R>
auto pullback(const Matmul& op, const R& r) {
  constexpr std::size_t kInputs = std::tuple_size_v<std::remove_cvref_t<decltype(r.inputs())>>;
  const bool biased = op.has_bias(kInputs), activates = op.activation != Activation::none;
  const auto kept_bias = [&] {
    if constexpr (kInputs > 2)
      return in<2>(r, biased && activates);
    else
      return in<0>(r, false);
  };
  return [op, biased, a = in<0>(r, activates || r.needs(1)), b = in<1>(r, activates || r.needs(0)),
          bias = kept_bias(), columns = shape_of<1>(r),
          by_columns = matmul_detail::lies_by_columns(std::get<1>(r.inputs()))](auto& g) {
    if (op.has_residual(kInputs) && g.needs(kInputs - 1)) g.give(kInputs - 1, g.dy());
    const Matmul alone{op.kernel, op.math};
    auto dy = g.dy();
    if (op.activation != Activation::none)
      dy = matmul_detail::before_activation(
          op.activation, dy, biased ? call(alone, g[a], g[b], g[bias]) : call(alone, g[a], g[b]));
    if (g.needs(0)) g.give(0, call(alone, dy, transpose(g[b])));
    // dB lies as B does, so that the gradient of a weight lies as the weight: the same bits.
    if (g.needs(1))
      g.give(1, by_columns ? transpose(call(alone, transpose(dy), g[a]))
                           : call(alone, transpose(g[a]), dy));
    if constexpr (kInputs > 2)
      if (biased && g.needs(2)) g.give(2, sum_to(dy, {columns[columns.rank() - 1]}));
  };
}

}  // namespace planck
