// Matrix products, batched: C[…, M, N] = A[…, M, K] × B[…, K, N].
//
// What a product means is part of the problem (`math`; docs/numerics.md, "Products"):
//
//   chain        c[i, j] = fma(a[i, K-1], b[K-1, j], … fma(a[i, 0], b[0, j], +0) …), k ascending,
//                in the compute type; every float; f32's and f64's default
//   tensor_core  blocks of 16 products (TF32: 8) added at 25 bits and cut toward zero, as Hopper's
//                tensor cores do; bf16 and f16, whose default it is, and f32 cut to TF32
//   exact        f32: rows and columns rounded to integers of 23 bits, their product exact; s8: the
//                integer sum. K is at most 131,071 for s8, so that no sum leaves i32
//
// Each is rounded once to the output's dtype; K = 0 gives +0. What follows it, for floats, has the
// bits of ops of their own, each of which rounds (planck/math/activation.h): a bias [N] is added,
// an activation applied (relu, gelu, silu), a residual like C added, in this order. Row i of C
// depends on row i of A and of the residual, on B and on the bias alone: tiles, blocks, threads,
// batches and the number of rows never change a bit.
//
// Dtypes. T in {float, double, f16, bf16}, C of the same; arithmetic in double for double, in float
// for all others. T = int8_t: C is int32_t. A NaN result is the quiet one without a payload.
//
// Views. Any strides, 0 and negative ones too: a transposed operand is read where it lies, a
// broadcast batch axis has stride 0. A, B and C have the same batch axes, none to six. C overlaps
// nothing.
//
// Gradients. dA = dC Bᵀ, dB = Aᵀ dC, both matmul, dbias = Σ dC over rows, dresidual = dC; backward
// keeps A where dB is needed and B where dA is. With an activation dC is that of its argument,
// which backward computes again; matmul() on tensors that are tracked leaves it to an op of its
// own, which keeps it.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device).
// cpu:openblas and cuda:cublaslt, on request by name, promise run_to_run.
#pragma once

#include "planck/ops/matmul/matmul.problem.h"

namespace planck {

struct MatmulDescriptor {
  std::int64_t m, n, k;
  Shape batch = {};
  std::optional<ProductMath> math = {};  // none: the dtype's default
  bool bias = false;
  Activation activation = Activation::none;
  bool residual = false;
};

template <class T>
concept MatmulElement = Float<T> || std::same_as<T, std::int8_t>;
template <MatmulElement T>
using MatmulOutput = std::conditional_t<std::is_same_v<T, std::int8_t>, std::int32_t, T>;

template <MatmulElement T>
struct MatmulOp {
  using Problem = MatmulProblem;
  using Descriptor = MatmulDescriptor;
  struct Args {
    TensorView<const T> a, b;
    TensorView<MatmulOutput<T>> c;
    TensorView<const T> bias = {}, residual = {};
  };
  static MatmulProblem problem(const Descriptor& d) {
    return {dtype_of<T>, d.batch,      d.m,
            d.n,         d.k,          d.math.value_or(default_product_math(dtype_of<T>)),
            d.bias,      d.activation, d.residual};
  }
  static Operands operands(const Args& args) {
    return {args.a, args.b, args.c, args.bias, args.residual};
  }
};

template <MatmulElement T>
using MatmulPlan = Plan<MatmulOp<T>>;

}  // namespace planck
