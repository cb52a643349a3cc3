// Matrix products, batched: C[…, M, N] = A[…, M, K] × B[…, K, N].
//
//   c[i, j] = fma(a[i, K-1], b[K-1, j], … fma(a[i, 1], b[1, j], fma(a[i, 0], b[0, j], +0)) …)
//
// One chain of fused multiply-adds per element, k ascending from +0, in the compute type; rounded
// once to the output's dtype. K = 0 gives +0. Tiles, blocks and threads never change the chain: an
// accumulator that has to wait is kept exactly. s8 × s8 gives i32, exactly; K is at most 131,071,
// so that no sum of products (each at most 2^14) leaves i32.
//
// Dtypes. T in {float, double, f16, bf16}, C of the same; arithmetic in double for double, in float
// for all others. T = int8_t: C is int32_t. A NaN result is the quiet one without a payload.
//
// Views. Any strides, 0 and negative ones too: a transposed operand is read where it lies, a
// broadcast batch axis has stride 0. A, B and C have the same batch axes, none to six. C overlaps
// nothing.
//
// Gradients. dA = dC Bᵀ, dB = Aᵀ dC, both matmul; backward keeps A where dB is needed and B where
// dA is.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device).
// cpu:openblas and cuda:cublaslt, on request by name, promise run_to_run.
#pragma once

#include "planck/ops/matmul/matmul.problem.h"

namespace planck {

struct MatmulDescriptor {
  std::int64_t m, n, k;
  Shape batch = {};
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
  };
  static MatmulProblem problem(const Descriptor& d) {
    return {dtype_of<T>, d.batch, d.m, d.n, d.k};
  }
  static Operands operands(const Args& args) { return {args.a, args.b, args.c}; }
};

template <MatmulElement T>
using MatmulPlan = Plan<MatmulOp<T>>;

}  // namespace planck
