// Scaled dot-product attention and its gradient, without a matrix of scores in memory.
//
//   q [N, H, L, D], k [N, G, S, D], v [N, G, S, E] → y [N, H, L, E], lse [N, H, L]
//   s = q kᵀ;  t = s * scale + mask;  y = softmax(t) v;  lse = log of the sum of exp(t)
//
// Head h of q looks at head h / (H / G) of k and v; G divides H. scale is 1 / sqrt(D) unless it is
// given.
//
// Who sees whom. causal: query i sees keys j <= i + S - L, so that the last query sees all of a
// cache; window: of these the last `window`. mask [N, H, L, S] (strides of 0 broadcast it): true
// hides a key; a float is added to the score, and -Inf hides. A query that sees nothing gives +0
// and lse -Inf, and has no part in any gradient. A hidden key has no part, whatever lies there:
// NaN in the padding of a cache stays there.
//
// What scores become. soft_cap: s * scale becomes cap * tanh(s * scale / cap), before anything is
// added. alibi: -slope * |i + S - L - j| is added, beside causal or not; slopes of heads are those
// of the paper, 2^(-8 (h + 1) / H) for H a power of two.
//
// Dropout. Probability (n, h, i, j) is 0 in the product with v unless the number of its place in
// [N, H, L, S], in stream `offset` of `seed`, is below 1 - dropout; y is divided by that. These are
// the numbers of random_uniform: no thread count or order shows. lse knows nothing of it. Backward
// takes the same options, and so drops the same. 0: nothing is drawn, and no bit differs.
//
// Packed sequences. With query_offsets and key_offsets, as many of both, sequence b has queries
// query_offsets[b] ... query_offsets[b + 1] - 1 of L, and they see its keys alone, with the bits
// that it has alone: i, j, L and S above are those of the sequence, but for dropout's, which are of
// the whole. Offsets are numbers of the host, from 0 to L and S, not falling; a sequence may have
// no queries or no keys.
//
// Order (docs/numerics.md, "Attention"). Keys are walked upwards in blocks of 128. m is the largest
// score so far; a block that raises it multiplies sums by e^(m - m'), and then adds p = e^(t - m')
// to eight partial sums and p v to the result. Products mean what `math` says: chain (f32, f64), or
// tensor_core (bf16, f16, and f32 as TF32), for which p is rounded to the elements' dtype. Row i
// depends on query i, its mask and the keys that it sees alone: not on L, tiles, threads or
// batches. A query gives the same bits in a long sequence and alone with a cache.
//
// Gradients. attention_backward takes what forward had, y and lse, and
//   p = e^(t - lse);  delta = the sum of dy * y;  dp = dy vᵀ;  ds = p * (dp - delta)
//   dq = scale * (ds k);  dk = scale * (dsᵀ q);  dv = pᵀ dy
// where a cap multiplies ds by 1 - tanh², and dropout dp and p of dv by 0 or 1 / (1 - dropout).
// dq over keys, upwards; dk and dv over the heads of the group, and in each over queries, upwards:
// one chain of products for each. p and ds are rounded as p is in forward. Nothing of size L × S is
// kept. On tensors, a gradient that reaches lse is one more term of ds (attention.grad.h).
//
// Dtypes. f32, f64, f16, bf16; lse has the compute type: f64 for f64, else f32. D and E are 1 to
// 256. A score of +Inf or NaN makes its row NaN.
//
// Views. Any strides; outputs overlap nothing.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device). The
// bound is relative to the largest |v|, times 1 + the largest sum of magnitudes of a row's scores;
// a soft cap below 2 makes these larger by 2 / cap, dropout all by 1 / (1 - dropout).
#pragma once

#include "planck/ops/attention/attention.problem.h"

namespace planck {

struct AttentionDescriptor {
  Shape q, k, v;
  ScaledDotProductOptions options = {};
  std::optional<Dtype> mask = {};  // boolean, or the elements' dtype
};

// The dtype of lse.
template <Float T>
using AttentionSum = std::conditional_t<std::same_as<T, double>, double, float>;

template <Float T>
struct AttentionPlanOp {
  using Problem = AttentionProblem;
  using Descriptor = AttentionDescriptor;
  struct Args {
    TensorView<const T> q, k, v;
    TensorView<T> y;
    TensorView<AttentionSum<T>> lse;
    View mask = {};
  };
  static AttentionProblem problem(const Descriptor& d) {
    return {AttentionKind::attention, dtype_of<T>, d.q, d.k, d.v, d.options, d.mask};
  }
  static Operands operands(const Args& a) { return {a.q, a.k, a.v, a.mask, a.y, a.lse}; }
};

template <Float T>
struct AttentionBackwardPlanOp {
  using Problem = AttentionProblem;
  using Descriptor = AttentionDescriptor;
  struct Args {
    TensorView<const T> q, k, v, y;
    TensorView<const AttentionSum<T>> lse;
    TensorView<const T> dy;
    TensorView<T> dq, dk, dv;
    View mask = {};
  };
  static AttentionProblem problem(const Descriptor& d) {
    return {AttentionKind::attention_backward, dtype_of<T>, d.q, d.k, d.v, d.options, d.mask};
  }
  static Operands operands(const Args& a) {
    return {a.q, a.k, a.v, a.mask, a.y, a.lse, a.dy, a.dq, a.dk, a.dv};
  }
};

template <Float T>
using AttentionPlan = Plan<AttentionPlanOp<T>>;
template <Float T>
using AttentionBackwardPlan = Plan<AttentionBackwardPlanOp<T>>;

}  // namespace planck
