// Plain loops over the element math, which the compiler vectorizes for each instruction set, and
// loops over vectors for the functions that elementary-inl.h knows.
// Include after hwy/highway.h, within foreach_target's passes.
#if defined(PLANCK_OPS_ELEMENTWISE_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_OPS_ELEMENTWISE_LOOPS_INL_H_
#undef PLANCK_OPS_ELEMENTWISE_LOOPS_INL_H_
#else
#define PLANCK_OPS_ELEMENTWISE_LOOPS_INL_H_
#endif

#include <cstring>

#include "planck/math/elementary-inl.h"
#include "planck/ops/elementwise/loops.h"

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

// The function of whole vectors of f32 that gives the bits of F; none where F has no such type.
template <class F>
struct VectorOf;
#if PLANCK_VECTOR_MATH
#define PLANCK_VECTOR(Name, function)                                                          \
  template <>                                                                                  \
  struct VectorOf<em::Name> {                                                                  \
    static HWY_INLINE vector_math::V of(vector_math::V x) { return vector_math::function(x); } \
  };
PLANCK_VECTOR(Exp, exp)
PLANCK_VECTOR(Tanh, tanh)
PLANCK_VECTOR(Sigmoid, sigmoid)
PLANCK_VECTOR(Silu, silu)
PLANCK_VECTOR(Gelu, gelu)
#undef PLANCK_VECTOR

template <class F>
HWY_INLINE void vector_loop(const float* HWY_RESTRICT in, float* HWY_RESTRICT out, int n) {
  const vector_math::D d;
  constexpr int kLanes = vector_math::kLanes;
  int i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(VectorOf<F>::of(hn::LoadU(d, in + i)), d, out + i);
  if (i == n) return;
  const auto rest = static_cast<std::size_t>(n - i) * sizeof(float);
  alignas(64) float last[kLanes] = {};
  std::memcpy(last, in + i, rest);
  hn::Store(VectorOf<F>::of(hn::Load(d, last)), d, last);
  std::memcpy(out + i, last, rest);
}
#endif

template <class F, class C>
void unary_loop(const void* a, const void*, const void*, void* y, int n, const LoopScalars& s) {
  const C* HWY_RESTRICT in = static_cast<const C*>(a);
  C* HWY_RESTRICT out = static_cast<C*>(y);
  const em::Scalars<C> scalars = scalars_in<C>(s);
  if constexpr (std::is_same_v<C, float> && requires { &VectorOf<F>::of; }) {
    vector_loop<F>(in, out, n);
  } else if constexpr (em::HasFar<F>) {
    int far = 0;
    for (int i = 0; i < n; ++i) {
      out[i] = em::stored(F::near(in[i]));
      far |= math::far_from_zero(in[i]);
    }
    if (far == 0) return;
    for (int i = 0; i < n; ++i)
      if (math::far_from_zero(in[i])) out[i] = em::stored(F::of(in[i], scalars));
  } else {
    for (int i = 0; i < n; ++i) out[i] = em::stored(F::of(in[i], scalars));
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
