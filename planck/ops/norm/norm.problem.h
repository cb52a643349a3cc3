// layer_norm and rms_norm over the trailing axes, with gradients.
//
// D elements a row. For each row, every operation rounded in the compute type:
//   layer_norm    mean = (sum of x) / D          rms_norm    mean = 0, not stored
//                 rstd = 1 / sqrt((sum of (x - mean)^2) / D + eps)
//                 y    = ((x - mean) * rstd) * weight + bias        rms_norm has no bias
//   backward      xhat = (x - mean) * rstd;  g = dy * weight
//                 dx   = ((g - (sum of g) / D) - xhat * ((sum of g * xhat) / D)) * rstd
//                        rms_norm: without the first mean
//                 dweight = sum over rows of dy * xhat;  dbias = sum over rows of dy
//
// Sums are in the canonical pairwise order (docs/numerics.md), along a row or down the rows. A left
// out weight is 1, a left out bias nothing; dweight and dbias are computed where they are asked
// for.
//
// Dtypes. f32, f64, f16, bf16; mean and rstd have the compute type. Any strides; y may take x's
// place, a gradient that of no input.
#pragma once

#include <vector>

#include "planck/plan/registry.h"

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
  bool weighted = false, biased = false;  // backward: dweight, dbias are asked for
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
