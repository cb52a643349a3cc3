// Gradient of C = A B: dA = dC Bᵀ, dB = Aᵀ dC.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/matmul/einsum.functions.h"
#include "planck/ops/matmul/matmul.functions.h"

namespace planck {

template <class R>
auto pullback(const Matmul& op, const R& r) {
  return [op, a = in<0>(r, r.needs(1)), b = in<1>(r, r.needs(0))](auto& g) {
    if (g.needs(0)) g.give(0, call(op, g.dy(), transpose(g[b])));
    if (g.needs(1)) g.give(1, call(op, transpose(g[a]), g.dy()));
  };
}

}  // namespace planck
