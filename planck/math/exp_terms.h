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

inline constexpr float kTermUnit = 0x1.62e43p-1f;  // L
inline constexpr float kTermNear = 86.0f;          // see exp_term_near

#include "planck/math/formulas/exp_terms.h"

PLANCK_HD double exp_term(double z) { return exp(z); }
PLANCK_HD double exp_term_near(double z) { return exp(z); }

}  // namespace planck::math
