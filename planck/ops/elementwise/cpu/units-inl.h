// Units of four vectors of f32 and how they lie in memory as f32, f16 or bf16.
// For instruction sets with fused multiply-add. Include after hwy/highway.h, within
// foreach_target's passes.
#if defined(PLANCK_OPS_ELEMENTWISE_UNITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_OPS_ELEMENTWISE_UNITS_INL_H_
#undef PLANCK_OPS_ELEMENTWISE_UNITS_INL_H_
#else
#define PLANCK_OPS_ELEMENTWISE_UNITS_INL_H_
#endif

#include "planck/core/half.h"
#include "planck/math/bf16-inl.h"
#include "planck/math/elementary-inl.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::vector_portions {

namespace hn = hwy::HWY_NAMESPACE;
namespace vm = vector_math;
using vm::D;
using vm::kLanes;
using vm::U;
using vm::V;

inline constexpr int kVectors = 4, kUnit = kVectors * kLanes;  // elements
struct Unit {
  V v[kVectors];
};

// T as it is stored. A unit of bf16 has its even elements in one vector and its odd ones in the
// next: neither way moves anything between lanes.
HWY_INLINE Unit load(const float* p) {
  Unit x;
  for (int k = 0; k < kVectors; ++k) x.v[k] = hn::LoadU(D(), p + k * kLanes);
  return x;
}
HWY_INLINE Unit load(const f16* p) {
  const hn::Rebind<hwy::float16_t, D> half;
  Unit x;
  for (int k = 0; k < kVectors; ++k)
    x.v[k] = hn::PromoteTo(
        D(), hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p) + k * kLanes));
  return x;
}
HWY_INLINE Unit load(const bf16* p) {
  Unit x;
  for (int k = 0; k < kVectors; k += 2) {
    const U pairs = hn::LoadU(vm::UD(), reinterpret_cast<const std::uint32_t*>(p) + k / 2 * kLanes);
    x.v[k] = bf16_vectors::even(pairs);
    x.v[k + 1] = bf16_vectors::odd(pairs);
  }
  return x;
}

template <class Tag, class Vector, class P>
HWY_INLINE void put(Tag tag, Vector v, P* p, bool stream) {
  if (stream)
    hn::Stream(v, tag, p);
  else
    hn::StoreU(v, tag, p);
}
HWY_INLINE void store(const Unit& y, float* p, bool stream) {
  for (int k = 0; k < kVectors; ++k) put(D(), y.v[k], p + k * kLanes, stream);
}
HWY_INLINE void store(const Unit& y, f16* p, bool stream) {
  const hn::Rebind<hwy::float16_t, D> half;
  const hn::Rebind<std::uint16_t, D> words;
  for (int k = 0; k < kVectors; ++k)
    put(words, hn::BitCast(words, hn::DemoteTo(half, y.v[k])),
        reinterpret_cast<std::uint16_t*>(p) + k * kLanes, stream);
}
HWY_INLINE void store(const Unit& y, bf16* p, bool stream) {
  for (int k = 0; k < kVectors; k += 2)
    put(vm::UD(), bf16_vectors::narrowed_pairs(y.v[k], y.v[k + 1]),
        reinterpret_cast<std::uint32_t*>(p) + k / 2 * kLanes, stream);
}

HWY_INLINE void make_canonical(Unit& y) {
  const V sum = hn::Add(hn::Add(y.v[0], y.v[1]), hn::Add(y.v[2], y.v[3]));
  if (HWY_LIKELY(hn::AllFalse(D(), hn::IsNaN(sum)))) return;
  for (int k = 0; k < kVectors; ++k) y.v[k] = vm::canonical(y.v[k]);
}

}  // namespace planck::HWY_NAMESPACE::vector_portions
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
