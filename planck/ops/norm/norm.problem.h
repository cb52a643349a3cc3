// layer_norm and rms_norm as plain values: which op, which dtype, shapes and attributes. norm.h
// says what they compute.
#pragma once

#include <vector>

#include "planck/plan/plan.h"

namespace planck {

enum class NormKind : std::uint8_t {
  layer_norm,
  rms_norm,
  layer_norm_backward,
  rms_norm_backward,
};

inline constexpr int kNormOperands = 8;

struct NormProblem {
  NormKind kind = NormKind::layer_norm;
  Dtype element_dtype = Dtype::f32;
  Shape shape;                            // of x
  int axes = 1;                           // the trailing axes that are a row
  bool weighted = false, biased = false;  // backward: dweight, dbias are wanted
  double eps = 1e-5;

  bool operator==(const NormProblem&) const = default;

  bool backward() const { return kind >= NormKind::layer_norm_backward; }
  bool centered() const {
    return kind == NormKind::layer_norm || kind == NormKind::layer_norm_backward;
  }
  std::int64_t length() const;
  std::int64_t rows() const;
  Shape row_shape() const;    // of weight and bias
  Shape outer_shape() const;  // of mean and rstd
  unsigned along() const;     // the row's axes, of x

  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kNormOperands> specs() const;
  std::span<const Kernel<NormProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

// Places of operands.
namespace norm_operand {
enum Forward { x, weight, bias, y, mean, rstd };
enum Backward { bx, dy, bmean, brstd, bweight, dx, dweight, dbias };
}  // namespace norm_operand

std::vector<OpEntry> norm_ops();

}  // namespace planck
