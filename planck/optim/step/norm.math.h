// Norms from sums of squares, on the host and on the device alike; all in f64.
#pragma once

#include "planck/math/float_bits.h"

namespace planck::optim {

// Whether a sum of f32 squares neither overflowed nor nearly vanished. NaN is: it stays.
PLANCK_HD bool usual_squares(double s) { return (s >= 0x1p-100 && s <= 0x1p120) || s != s; }

// out[0] = √Σ squares / scale, in their order; out[1] = min(1, highest / out[0]) / scale.
PLANCK_HD void norm_and_factor_math(const double* squares, std::int64_t n, double highest,
                                    double scale, double* out) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += squares[i];
  const double norm = math::sqrt_of(sum) / scale;
  out[0] = norm;
  out[1] = (norm > highest ? highest / norm : 1.0) / scale;
}

PLANCK_HD double norm_ratio(double squares_a, double squares_b) {
  return squares_a > 0 && squares_b > 0 ? math::sqrt_of(squares_a) / math::sqrt_of(squares_b) : 1.0;
}

}  // namespace planck::optim
