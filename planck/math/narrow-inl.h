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
namespace planck::HWY_NAMESPACE::vector_math::narrow {

namespace scalar = math::narrow::detail;

// x · unit = n + r; scale = 2^(n + kUp).
struct Power {
  V scale, r;
};
template <int kUp = 0>
HWY_INLINE Power power_of(V x, float unit) {
  constexpr float kShift = math::Layout<float>::kRounder + math::Layout<float>::kBias + kUp;
  const V t = hn::MulAdd(x, all(unit), all(kShift));
  return {from_bits(hn::ShiftLeft<math::Layout<float>::kMantissa>(bits_of(t))),
          hn::MulAdd(x, all(unit), hn::Sub(all(kShift), t))};
}
HWY_INLINE V exp2_of(const Power& p) {
  return hn::Mul(polynomial(p.r, scalar::exp2_terms()), p.scale);
}
HWY_INLINE V exp_by_root(V x) {
  const V root = exp2_of(power_of(x, 0.5f * scalar::kLog2E));
  return hn::Mul(root, root);
}

template <class T>
HWY_INLINE V exp(V x) {
  x = at_most(scalar::Range<T>::kHighest, at_least(scalar::Range<T>::kLowest, x));
  if constexpr (std::is_same_v<T, bf16>)
    return exp_by_root(x);
  else
    return exp2_of(power_of(x, scalar::kLog2E));
}

// Of x >= kLowest.
template <class T>
HWY_INLINE V sigmoid_above(V x) {
  constexpr int kUp = math::narrow::kSigmoidUp<T>;
  const V one = all(1.0f), e = exp2_of(power_of<kUp>(at_most(20.0f, x), scalar::kLog2E));
  if constexpr (kUp == 0) return hn::Mul(e, hn::Div(one, hn::Add(e, one)));
  const V inverse = hn::Div(one, hn::MulAdd(e, all(0x1p-64f), one));
  return hn::Mul(hn::Mul(e, inverse), all(0x1p-64f));
}
template <class T>
HWY_INLINE V sigmoid(V x) {
  return sigmoid_above<T>(at_least(scalar::Range<T>::kLowest, x));
}

template <class T>
HWY_INLINE V silu(V x) {
  x = at_least(scalar::Range<T>::kLowest, x);
  return hn::Mul(sigmoid_above<T>(x), x);
}

template <class T>
HWY_INLINE V tanh(V x) {
  const V bounded = at_most(10.0f, at_least(-10.0f, x));
  const Power p = power_of(bounded, 2.0f * scalar::kLog2E);
  const V tail = hn::Mul(p.r, polynomial(p.r, scalar::exp2_tail_terms()));
  const V e = hn::MulAdd(p.scale, tail, hn::Sub(p.scale, all(1.0f)));
  return hn::CopySign(hn::Mul(e, hn::Div(all(1.0f), hn::Add(e, all(2.0f)))), x);
}

template <class T>
HWY_INLINE V gelu(V x) {
  const V a = at_most(scalar::kGeluFar<T>, hn::Abs(x));
  const V size = exp2_of(power_of<100>(polynomial(a, scalar::log2_tail_terms<T>()), 1.0f));
  return hn::NegMulAdd(hn::Mul(a, size), all(0x1p-100f), at_least(-0.0f, x));
}

// Of a normal x > 0.
HWY_INLINE V short_log(V x) {
  const Logarithmic l = logarithmic(x);
  const V f = hn::Sub(l.m, all(1.0f));
  return hn::MulAdd(l.k, all(0x1.62e43p-24f), hn::Mul(f, polynomial(f, scalar::log_terms())));
}
HWY_INLINE V log_of_normal(V x) { return with_special_logs(short_log(x), x); }

HWY_INLINE V sin_near(V x) {
  const V rounder = all(math::Layout<float>::kRounder);
  const V t = hn::MulAdd(x, all(0x1.45f306p-2f), rounder), n = hn::Sub(t, rounder);
  const V r = hn::NegMulAdd(n, all(0x1.4442d2p-23f), hn::NegMulAdd(n, all(0x1.921fb4p1f), x));
  const V z = hn::Mul(r, r);
  const V y = hn::Mul(r, hn::MulAdd(z, polynomial(z, scalar::sin_terms()), all(1.0f)));
  return from_bits(hn::Xor(bits_of(y), hn::ShiftLeft<31>(bits_of(t))));
}

}  // namespace planck::HWY_NAMESPACE::vector_math::narrow
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
