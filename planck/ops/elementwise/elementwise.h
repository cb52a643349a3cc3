// Elementwise ops: y = f(x), y = f(a, b), comparisons, selection, casts, fills, random numbers.
//
// One plan serves one op on one dtype and shape. All operands have that shape: what is broadcast
// comes as a view with stride 0. Any strides (0 for inputs, negative), rank 0 to 8, empty tensors;
// an output may be the very same view as an input of its dtype's width.
//
//   const ElementwiseProblem add{.op = ElementwiseOp::add, .dtype = Dtype::f32, .shape = {4, 5}};
//   const auto plan = ElementwisePlan::select(stream, add);
//   plan->run(stream, {}, elementwise_operands({a, b, y}));
//
// Operands are those of the op's OpInfo in order: x, y; a, b, y; condition, a, b, y; x, mask, y; y.
// `scalars` are its attributes in order: slope; min, max; value; start, step; low, high;
// mean, std; p.
//
// dtypes     floats compute in f64 (f64) or f32 (f32, f16, bf16), rounded once at the store
//            i32, i64: arithmetic and comparisons, too
//            bool: logic; one byte, any byte but 0 reads as true, 0 or 1 is written
//            where, mask_fill, cast, copy, fill: all of these and s8, u8
//            i32, i64 alone: bits
//            Scalars of floats are rounded to the compute type, those of fill and mask_fill to the
//            dtype; what would become infinite is refused. Scalars of integers are whole and fit,
//            or are refused. clamp's bounds may lie beyond the ends.
//
// floats     every computed NaN is the canonical one; where and copy keep bits
//   sign               sign(±0) = +0, sign(NaN) = NaN
//   relu               relu(−0) = +0, relu(NaN) = NaN
//   clamp              lower bound first: min > max gives max; NaN stays; a NaN bound is none
//   maximum, minimum   NaN where either is; +0 is larger than −0
//   silu, gelu         of −Inf: −0, the limit
//   softsign           of ±Inf: ±1, the limit
//   gelu_backward      at ±Inf: NaN
//   relu_backward      0 where b is NaN
//   round              ties to even
// integers   wrap around (two's complement); div truncates, a / 0 = 0, lowest / −1 = lowest;
//            shifts by a negative count or one as large as the width shift all bits out, to the
//            right all but the sign
//
// cast       to a float          rounded once
//            float to integer    truncated, saturating; NaN gives 0
//            integer to integer  the low bits, where it is narrower
//            to bool             != 0; NaN is true
//
// arange     start + i · step at logical position i: floats in f64, rounded once more to the dtype
// random     numbers are a function of (seed, offset, logical position i) alone, the same for every
//            layout, device and thread count: number i of the Philox stream `offset` of `seed`
//            (planck/math/random.h). Take another offset for every tensor.
//   uniform            low + u · (high − low), u of 24 bits (f64: 53) in [0, 1); the sum may round
//                      to high
//   normal             mean + z · std
//   bernoulli          u < p, as 0 and 1
//
// Gradients. elementwise.grad.h says which slope is taken at kinks and ties. Backward keeps x or y,
// whichever the derivative is made of.
//
// Precision. planck/math/elementary.h for functions; everything else is rounded once. Same bits on
// every CPU and GPU, any thread count (Reproducibility::cross_device).
#pragma once

#include <initializer_list>

#include "planck/ops/elementwise/elementwise.problem.h"

namespace planck {

using ElementwisePlan = Selection<ElementwiseProblem>;

inline Operands elementwise_operands(std::initializer_list<View> views) {
  Operands operands;
  std::size_t k = 0;
  for (const View& v : views) operands[k++] = v;
  return operands;
}

}  // namespace planck
