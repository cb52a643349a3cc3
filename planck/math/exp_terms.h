// e^z as a term of a sum, whose size is what counts: scalar, host and device.
//
//   log Σ e^x = c + log Σ e(x − c),   c = the largest x where its size is 64 or more, else 0
//
// Where c is 0 no term waits for the largest one. e^64 leaves room for 2^31 terms, and what e^-104
// loses is less than 2^-26 of a sum with e^-64 in it.
//
// e(z) is e^z in f64. In f32 it is shorter: ln 2 is one number, L, so that an error of n (ln 2 − L)
// remains in the exponent. It is nearly the same for terms that are of a size: e(x) / e(y) is
// within 2 units in the last place of e^(x − y), and 2^-28.5 |x − y|.
#pragma once

#include "planck/math/exp.h"

namespace planck::math {

template <class C>
PLANCK_HD C center_of_terms(C largest) {
  return abs_of(largest) < C(64) ? C(0) : largest;
}

// z = n L + r, 2^-n e(z).
inline constexpr float kTermUnit = 0x1.62e43p-1f;
PLANCK_HD float term_factor(float r) {
  return fma_of(fma_of(exp_detail::tail(r), r, 1.0f), r, 1.0f);
}

// z <= 70, or NaN of any sign.
PLANCK_HD float exp_term(float z) {
  using K = exp_detail::Constants<float>;
  z = at_least(z, K::kLowest);
  const auto n = rounded_multiple(z, K::kInverse);
  const float r = fma_of(n.value, -kTermUnit, z);
  // 2^n is 2^(n + 25) 2^-25: only the second product rounds.
  return term_factor(r) * power_of_two<float>(n.integer + 25) * 0x1p-25f;
}
PLANCK_HD double exp_term(double z) { return exp(z); }

}  // namespace planck::math
