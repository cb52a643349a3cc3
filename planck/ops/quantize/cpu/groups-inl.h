// Groups element by element, for the plain loops of the quantize family: inside a per-target
// namespace (include after hwy/highway.h, within foreach_target's passes).
#if defined(PLANCK_OPS_QUANTIZE_GROUPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_OPS_QUANTIZE_GROUPS_INL_H_
#undef PLANCK_OPS_QUANTIZE_GROUPS_INL_H_
#else
#define PLANCK_OPS_QUANTIZE_GROUPS_INL_H_
#endif

#include <type_traits>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/ops/quantize/cpu/portions.h"
#include "planck/ops/quantize/quantize.math.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace qm = quantize_math;

// The group of one element, by value: in loops over one group, it stays in registers.
template <GridPath kPath, class C>
struct At {
  static constexpr bool kAnyZero =
      kPath == GridPath::any_divide || kPath == GridPath::any_reciprocal;
  static constexpr bool kReciprocal =
      kPath == GridPath::reciprocal || kPath == GridPath::any_reciprocal;

  std::int32_t q_min, q_max, z;
  C scale, inverse, lo, hi;

  HWY_INLINE At(const PortionGroups<C>& g, int e)
      : q_min(g.q_min),
        q_max(g.q_max),
        z(g.zero_point[e]),
        scale(g.scale[e]),
        inverse(kReciprocal ? g.inverse[e] : C(0)),
        lo(kAnyZero ? C(0) : g.lo[e]),
        hi(kAnyZero ? C(0) : g.hi[e]) {}

  HWY_INLINE C position(C x) const { return kReciprocal ? x * inverse : x / scale; }
  HWY_INLINE C product(C steps) const { return qm::canonical(scale * steps); }
  // q − z
  HWY_INLINE C steps(C x) const {
    if constexpr (kAnyZero)
      return qm::steps<C>(qm::quantized(position(x), z, q_min, q_max), z);
    else
      return qm::ordinary_steps(position(x), lo, hi);
  }
  // The low byte of q.
  HWY_INLINE std::uint8_t quantized(C x) const {
    if constexpr (kAnyZero)
      return static_cast<std::uint8_t>(qm::quantized(position(x), z, q_min, q_max));
    else
      return static_cast<std::uint8_t>(static_cast<std::int32_t>(steps(x)) + z);
  }
  HWY_INLINE bool inside(C x) const {
    if constexpr (kAnyZero) return qm::in_range(position(x), z, q_min, q_max);
    const C t = qm::rint_of(position(x));  // as qm::ordinary_in_range, without its branch
    return (t >= lo) & (t <= hi);
  }
};

// Calls body(At, k) for the m elements from i on, kChunk at a time, each time after ahead(first k).
// Zero points of any size take the plain way: one loop for all layouts. body writes to a buffer of
// its own, which the compiler cannot see: ivdep tells it.
template <GridPath kPath, GroupLayout kLayout, class C, class Ahead, class Body>
HWY_INLINE void each(PortionGroups<C> g, int i, int m, Ahead ahead, Body body) {
  using Group = At<kPath, C>;
  if constexpr (Group::kAnyZero) {
    const int shift = g.layout == GroupLayout::one    ? 30
                      : g.layout == GroupLayout::runs ? g.run_shift
                                                      : 0;
    for (int k = 0; k < m; ++k) body(Group(g, (i + k) >> shift), k);
    return;
  }
  const Group one(g, 0);
  for (int c = 0; c < m; c += kChunk) {
    ahead(c);
    if constexpr (kLayout == GroupLayout::one) {
#pragma GCC ivdep
      for (int k = c; k < c + kChunk; ++k) body(one, k);
    } else if constexpr (kLayout == GroupLayout::runs) {
      constexpr int kPart = kChunk / 2;  // i + c is a multiple of it
      const Group first(g, (i + c) >> g.run_shift), second(g, (i + c + kPart) >> g.run_shift);
#pragma GCC ivdep
      for (int k = c; k < c + kPart; ++k) body(first, k);
#pragma GCC ivdep
      for (int k = c + kPart; k < c + kChunk; ++k) body(second, k);
    } else {
#pragma GCC ivdep
      for (int k = c; k < c + kChunk; ++k) body(Group(g, i + k), k);
    }
  }
}

// Calls f(groups, path, layout) with both as constants.
template <class C, class F>
HWY_INLINE void with_constants(const PortionGroups<C>& g, F f) {
  using P = GridPath;
  using L = GroupLayout;
  const auto with_layout = [&](auto path) {
    if (g.layout == L::one)
      f(g, path, std::integral_constant<L, L::one>{});
    else if (g.layout == L::runs)
      f(g, path, std::integral_constant<L, L::runs>{});
    else
      f(g, path, std::integral_constant<L, L::each>{});
  };
  if (g.path <= P::divide) return with_layout(std::integral_constant<P, P::divide>{});
  if (g.path == P::reciprocal) return with_layout(std::integral_constant<P, P::reciprocal>{});
  const std::integral_constant<L, L::each> any_layout;
  if (g.path == P::any_divide) return f(g, std::integral_constant<P, P::any_divide>{}, any_layout);
  f(g, std::integral_constant<P, P::any_reciprocal>{}, any_layout);
}

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
