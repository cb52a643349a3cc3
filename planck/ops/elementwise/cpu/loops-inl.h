// Plain loops over the element math, which the compiler vectorizes for each instruction set: for
// all ops without vector code of their own (vectors-inl.h; exp of f64 is here).
// Include after hwy/highway.h, within foreach_target's passes.
#if defined(PLANCK_OPS_ELEMENTWISE_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_OPS_ELEMENTWISE_LOOPS_INL_H_
#undef PLANCK_OPS_ELEMENTWISE_LOOPS_INL_H_
#else
#define PLANCK_OPS_ELEMENTWISE_LOOPS_INL_H_
#endif

#include "planck/math/elementary-inl.h"
#include "planck/ops/elementwise/cpu/loops.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

namespace em = elementwise_math;
namespace hn = hwy::HWY_NAMESPACE;
using elementwise_cpu::Loop;
using elementwise_cpu::LoopScalars;
using elementwise_cpu::LoopTable;

template <class C>
HWY_INLINE em::Scalars<C> scalars_in(const LoopScalars& s) {
  if constexpr (std::is_same_v<C, float>) return s.f32;
  if constexpr (std::is_same_v<C, double>) return s.f64;
  if constexpr (std::is_same_v<C, std::int32_t>) return s.i32;
  if constexpr (std::is_same_v<C, std::int64_t>) return s.i64;
  if constexpr (std::is_same_v<C, std::uint8_t>) return {};
}

#if PLANCK_VECTOR_MATH
// Four vectors at a time, so that one's arithmetic hides the latency of another's; returns how many
// elements were done.
HWY_INLINE int exp_loop(const double* HWY_RESTRICT in, double* HWY_RESTRICT out, int n) {
  const hn::ScalableTag<double> d;
  constexpr int kVectors = 4, kLanes = static_cast<int>(hn::MaxLanes(d));
  int i = 0;
  for (; i + kVectors * kLanes <= n; i += kVectors * kLanes) {
    hn::Vec<decltype(d)> y[kVectors];
    for (int k = 0; k < kVectors; ++k) y[k] = vector_math::exp(hn::LoadU(d, in + i + k * kLanes));
    for (int k = 0; k < kVectors; ++k)
      hn::StoreU(vector_math::canonical(y[k]), d, out + i + k * kLanes);
  }
  return i;
}
#endif

template <class F, class C>
void unary_loop(const void* a, const void*, const void*, void* y, int n, const LoopScalars& s) {
  const C* HWY_RESTRICT in = static_cast<const C*>(a);
  C* HWY_RESTRICT out = static_cast<C*>(y);
  const em::Scalars<C> scalars = scalars_in<C>(s);
  if constexpr (em::HasFar<F>) {
    int far = 0;
    for (int i = 0; i < n; ++i) {
      out[i] = em::stored(F::near(in[i]));
      far |= math::far_from_zero(in[i]);
    }
    if (far == 0) return;
    for (int i = 0; i < n; ++i)
      if (math::far_from_zero(in[i])) out[i] = em::stored(F::of(in[i], scalars));
  } else {
    int i = 0;
#if PLANCK_VECTOR_MATH
    if constexpr (std::is_same_v<C, double> && std::is_same_v<F, em::Exp>) i = exp_loop(in, out, n);
#endif
    for (; i < n; ++i) out[i] = em::stored(F::of(in[i], scalars));
  }
}

template <class F, class C>
void binary_loop(const void* a, const void* b, const void*, void* y, int n, const LoopScalars&) {
  using R = decltype(F::of(C{}, C{}));
  const C* HWY_RESTRICT left = static_cast<const C*>(a);
  const C* HWY_RESTRICT right = static_cast<const C*>(b);
  R* HWY_RESTRICT out = static_cast<R*>(y);
  for (int i = 0; i < n; ++i) out[i] = em::stored(F::of(left[i], right[i]));
}

template <class C, class... F>
constexpr void put_unary(LoopTable& table, em::Ops<F...>) {
  ((table.loop[static_cast<std::size_t>(F::kOp)] = &unary_loop<F, C>), ...);
}
template <class C, class... F>
constexpr void put_binary(LoopTable& table, em::Ops<F...>) {
  ((table.loop[static_cast<std::size_t>(F::kOp)] = &binary_loop<F, C>), ...);
}
template <class C, class Unary, class Binary>
constexpr LoopTable table_of() {
  LoopTable table;
  put_unary<C>(table, Unary{});
  put_binary<C>(table, Binary{});
  return table;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
