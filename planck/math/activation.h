// What follows a product, element by element: the bias, an activation, a residual, in this order.
//
//   c = RN(sum);   c = RN(c + bias);   c = RN(f(c));   c = RN(c + residual)
//
// RN rounds to C's dtype, the arithmetic between is that of the compute type: each step is what an
// op of its own does, so that nobody can tell a kernel that takes them all from four ops.
#pragma once

#include "planck/core/activation.h"
#include "planck/math/erf.h"
#include "planck/math/narrow.h"

namespace planck::math {

// max(x, 0); of −0 it is +0, NaN stays. Integers, too.
template <class C>
PLANCK_HD C relu(C x) {
  const C y = x > C(0) ? x : C(0);
  return x != x ? x : y;
}

// f of what a T holds, to be rounded to T. A NaN may be of any kind.
template <class T, Activation kActivation, class C>
PLANCK_HD C activated(C x) {
  constexpr bool kNarrow = sizeof(T) == 2;
  if constexpr (kActivation == Activation::relu)
    return relu(x);
  else if constexpr (kActivation == Activation::gelu && kNarrow)
    return narrow::gelu<T>(x);
  else if constexpr (kActivation == Activation::gelu)
    return gelu(x);
  else if constexpr (kActivation == Activation::silu && kNarrow)
    return narrow::silu<T>(x);
  else if constexpr (kActivation == Activation::silu)
    return silu(x);
  else
    return x;
}

}  // namespace planck::math
