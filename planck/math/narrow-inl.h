// The functions of 16-bit floats over whole vectors, bit for bit those of narrow.h (the tests try
// every argument) but that a NaN may be of any kind. See elementary-inl.h.
#if defined(PLANCK_MATH_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_MATH_NARROW_INL_H_
#undef PLANCK_MATH_NARROW_INL_H_
#else
#define PLANCK_MATH_NARROW_INL_H_
#endif

#include "planck/math/elementary-inl.h"
#include "planck/math/narrow.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::vector_math {

#include "planck/math/formulas/log2.h"
#include "planck/math/formulas/pow.h"

namespace narrow {

#include "planck/math/formulas/narrow.h"

// Of a normal x > 0, or special values.
HWY_INLINE V log_of_normal(V x) { return with_special_logs(short_log(logarithmic(x)), x); }

}  // namespace narrow

}  // namespace planck::HWY_NAMESPACE::vector_math
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
