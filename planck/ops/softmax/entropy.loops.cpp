#include "planck/ops/softmax/entropy.loops.h"

#include "planck/loops/targets.h"
#include "planck/math/exp_terms.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/softmax/entropy.loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/steps-inl.h"
#include "planck/ops/reduce/lift-inl.h"
#include "planck/ops/reduce/pairs-inl.h"
#include "planck/ops/reduce/range-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

template <class C>
void terms(const Source& x, int n, C center, C* HWY_RESTRICT out) {
  alignas(64) C raw[kStep];
  for_steps(0, n, [&](int i, int m) {
    const C* HWY_RESTRICT from = elements<C>(x, i, m, raw);
    for (int k = 0; k < m; ++k) out[i + k] = math::exp_term(from[k] - center);
  });
}

template <class C>
inline constexpr EntropyLoops<C> kEntropyLoops = {.terms = terms<C>};

#if PLANCK_VECTOR_MATH
namespace vm = vector_math;
using vm::V;

// near: no element lies further below the center than kTermNear.
template <bool kNear, class S>
HWY_INLINE float sum_of_terms(S storage, const void* x, std::int64_t n, V center) {
  const auto term = [&](V v) HWY_ATTR {
    const V z = hn::Sub(v, center);
    return kNear ? vm::exp_term_near(z) : vm::exp_term(z);
  };
  if constexpr (std::is_same_v<S, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::sum(n / 2, [&](const auto& at) HWY_ATTR {
        const dense::Pairs p = dense::pairs_at(at).load(x);
        return hn::Add(term(p.even), term(p.odd));
      });
  return dense::sum(n, [&](const auto& at) HWY_ATTR { return term(at.load(storage, x)); });
}

TermSum<float> row(Dtype t, const void* x, std::int64_t n) {
  return dense::with_storage(t, [&](auto storage) HWY_ATTR {
    const dense::Range range = dense::range(storage, x, n, 4096);
    TermSum<float> s;
    s.largest = reduce_math::value_of<float>(dense::largest_key(range, 0), 0);
    s.center = math::center_of_terms(s.largest);
    const V center = vm::all(s.center);
    s.sum = reduce_math::value_of<float>(range.least, 0) - s.center >= -vm::kTermNear
                ? sum_of_terms<true>(storage, x, n, center)
                : sum_of_terms<false>(storage, x, n, center);
    return s;
  });
}

template <>
inline constexpr EntropyLoops<float> kEntropyLoops<float> = {.terms = terms<float>, .row = row};
#endif

}  // namespace

const EntropyLoops<float>* entropy_loops_f32() { return &kEntropyLoops<float>; }
const EntropyLoops<double>* entropy_loops_f64() { return &kEntropyLoops<double>; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(entropy_loops_f32);
HWY_EXPORT(entropy_loops_f64);

template <>
const EntropyLoops<float>& entropy_loops<float>() {
  static const auto& table = *HWY_DYNAMIC_DISPATCH(entropy_loops_f32)();
  return table;
}
template <>
const EntropyLoops<double>& entropy_loops<double>() {
  static const auto& table = *HWY_DYNAMIC_DISPATCH(entropy_loops_f64)();
  return table;
}

}  // namespace planck
#endif
