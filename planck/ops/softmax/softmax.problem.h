// softmax, log_softmax and cross_entropy as plain values: which op, which dtypes, shapes and
// attributes. softmax.h says what they compute.
#pragma once

#include <vector>

#include "planck/plan/plan.h"

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
  Dtype target_dtype = Dtype::i64;  // operands may be i32 or i64 whichever is set
  bool wide_loss = false;           // loss and dloss have the compute type

  bool operator==(const SoftmaxProblem&) const = default;

  bool entropy() const { return kind >= SoftmaxKind::cross_entropy; }
  std::int64_t length() const { return shape[axis]; }
  std::int64_t rows() const;
  Dtype loss_dtype() const { return wide_loss ? compute_dtype(element_dtype) : element_dtype; }

  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kSoftmaxOperands> specs() const;
  std::span<const Kernel<SoftmaxProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

std::vector<OpEntry> softmax_ops();

}  // namespace planck
