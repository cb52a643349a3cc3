// layer_norm and rms_norm as values; norm.h says what they compute.
#pragma once

#include "planck/ops/norm/norm.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

// x, then weight and bias where there are any → y, mean where Centered, rstd
template <bool Centered, bool Weighted, bool Biased>
struct Norm {
  static constexpr std::string_view name = Centered ? "layer_norm" : "rms_norm";
  using Gives = std::conditional_t<Centered, Kinds<FloatKind, FloatKind, FloatKind>,
                                   Kinds<FloatKind, FloatKind>>;
  int axes = 1;  // trailing ones
  double eps = 1e-5;
  NormProblem problem(std::span<const InputSpec> in) const {
    return of(Centered ? NormKind::layer_norm : NormKind::rms_norm, in[0]);
  }
  NormProblem of(NormKind kind, const InputSpec& x) const {
    return NormProblem{.kind = kind,
                       .element_dtype = x.dtype,
                       .shape = x.shape,
                       .axes = axes,
                       .weighted = Weighted,
                       .biased = Biased,
                       .eps = eps};
  }
};
// x, dy, mean where Centered, rstd, weight where Weighted → dx, dweight, dbias
template <bool Centered, bool Weighted, bool Biased>
struct NormBackward {
  static constexpr std::string_view name = Centered ? "layer_norm_backward" : "rms_norm_backward";
  using Gives = std::conditional_t<
      Weighted && Biased, Kinds<FloatKind, FloatKind, FloatKind>,
      std::conditional_t<Weighted || Biased, Kinds<FloatKind, FloatKind>, Kinds<FloatKind>>>;
  Norm<Centered, Weighted, Biased> forward;
  NormProblem problem(std::span<const InputSpec> in) const {
    return forward.of(Centered ? NormKind::layer_norm_backward : NormKind::rms_norm_backward,
                      in[0]);
  }
};

}  // namespace planck
