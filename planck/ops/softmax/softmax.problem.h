// softmax and log_softmax along one axis, and cross_entropy of rows of logits, with gradients.
//
//   softmax             m = max x;  e = exp(x - m);  s = sum of e;  y = e * (1 / s)
//     backward          dx = (dy - sum of dy * y) * y
//   log_softmax         y = (x - m) - log(s)
//     backward          dx = dy - exp(y) * (sum of dy)
//   cross_entropy       logits [N, C], targets [N]: loss[n] = (m - x[n, t]) + l; lse[n] = m + l, m
//                       itself where it is not finite; l = log(sum of e(x - c) / e(m - c)), e and c
//                       those of math/exp_terms.h
//     backward          dlogits[n, c] = dloss[n] * (exp(x[n, c] - lse[n]) - (c == t ? 1 : 0))
//
// Every operation is rounded in the compute type; sums are in the canonical pairwise order along
// the axis (docs/numerics.md). NaN anywhere along the axis gives NaN all along it, as does a
// largest value of +Inf or -Inf.
//
// Targets. i64 or i32. ignore_index gives loss 0 and gradient 0. So does a target outside of [0,
// C): nothing is read or written there, and bad_targets, where given, is their number.
//
// Dtypes. f32, f64, f16, bf16; lse has the compute type. Any strides; dx may be dy's place, y x's.
#pragma once

#include <vector>

#include "planck/plan/registry.h"

namespace planck {

enum class SoftmaxKind : std::uint8_t {
  softmax,
  log_softmax,
  softmax_backward,
  log_softmax_backward,
  cross_entropy,
  cross_entropy_backward,
};

inline constexpr int kSoftmaxOperands = 5;
inline constexpr std::int64_t kDefaultIgnoreIndex = -100;

struct SoftmaxProblem {
  SoftmaxKind kind = SoftmaxKind::softmax;
  Dtype element_dtype = Dtype::f32;
  Shape shape;  // of x; cross_entropy: [N, C]
  int axis = 0;
  std::int64_t ignore_index = kDefaultIgnoreIndex;
  Dtype target_dtype = Dtype::i64;  // i32 and i64 will do, whichever is said here

  bool operator==(const SoftmaxProblem&) const = default;

  bool entropy() const { return kind >= SoftmaxKind::cross_entropy; }
  std::int64_t length() const { return shape[axis]; }
  std::int64_t rows() const;

  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kSoftmaxOperands> specs() const;
  std::span<const Kernel<SoftmaxProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

std::vector<OpEntry> softmax_ops();

}  // namespace planck
