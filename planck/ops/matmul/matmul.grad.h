// Gradient of C = A B + bias: dA = dC Bᵀ, dB = Aᵀ dC, dbias = Σ dC over rows.
#pragma once

#include "planck/autodiff/flow.h"
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

}  // namespace matmul_detail

template <class R>
auto pullback(const Matmul& op, const R& r) {
  constexpr bool kBias = std::tuple_size_v<std::remove_cvref_t<decltype(r.inputs())>> == 3;
  return [op, a = in<0>(r, r.needs(1)), b = in<1>(r, r.needs(0)), columns = shape_of<1>(r),
          by_columns = matmul_detail::lies_by_columns(std::get<1>(r.inputs()))](auto& g) {
    if (g.needs(0)) g.give(0, call(op, g.dy(), transpose(g[b])));
    // dB lies as B does, so that the gradient of a weight lies as the weight: the same bits.
    if (g.needs(1))
      g.give(1, by_columns ? transpose(call(op, transpose(g.dy()), g[a]))
                           : call(op, transpose(g[a]), g.dy()));
    if constexpr (kBias)
      if (g.needs(2)) g.give(2, sum_to(g.dy(), {columns[columns.rank() - 1]}));
  };
}

}  // namespace planck
