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

HWY_INLINE V term(V z) {
  using K = math::exp_detail::Constants<float>;
  z = vm::at_least(K::kLowest, z);
  const V one = vm::all(1.0f), rounder = vm::all(math::Layout<float>::kRounder);
  const V n = hn::Sub(hn::MulAdd(z, vm::all(K::kInverse), rounder), rounder);
  const V r = hn::NegMulAdd(n, vm::all(math::kTermUnit), z);
  const V tail = vm::polynomial(r, math::exp_detail::tail_terms());
  return vm::scaled(hn::MulAdd(hn::MulAdd(tail, r, one), r, one), n);
}

TermSum<float> row(Dtype t, const void* x, std::int64_t n) {
  return dense::with_storage(t, [&](auto storage) HWY_ATTR {
    TermSum<float> s;
    s.largest =
        reduce_math::value_of<float>(dense::largest_key(dense::range(storage, x, n, 4096), 0), 0);
    s.center = math::center_of_terms(s.largest);
    const V center = vm::all(s.center);
    if constexpr (std::is_same_v<decltype(storage), dense::AsBf16>) {
      if (n % 2 == 0) {
        s.sum = dense::sum(n / 2, [&](const auto& at) HWY_ATTR {
          const dense::Pairs p = dense::pairs_at(at).load(x);
          return hn::Add(term(hn::Sub(p.even, center)), term(hn::Sub(p.odd, center)));
        });
        return s;
      }
    }
    s.sum = dense::sum(
        n, [&](const auto& at) HWY_ATTR { return term(hn::Sub(at.load(storage, x), center)); });
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
