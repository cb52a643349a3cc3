#include "planck/ops/pool/cpu/tap_loops.h"

#include "planck/loops/cpu/portions.h"
#include "planck/loops/cpu/targets.h"
#include "planck/ops/pool/pool.math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/pool/cpu/tap_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace pm = pool_math;

// Calls f with a constant stride where it is a usual one, so that the loop vectorizes.
template <class F>
HWY_INLINE void with_stride(std::int64_t stride, F f) {
  if (stride == 1) return f(std::integral_constant<std::int64_t, 1>());
  if (stride == 2) return f(std::integral_constant<std::int64_t, 2>());
  f(stride);
}

template <class C>
void largest(const Tap<C>& tap, C* HWY_RESTRICT best, std::int32_t* HWY_RESTRICT indices) {
  const C* HWY_RESTRICT row = tap.row;
  const std::int32_t position = tap.position;
  const int n = tap.n;
  with_stride(tap.stride, [&](auto stride) {
    const auto step = static_cast<std::int32_t>(stride);
    for (int i = 0; i < n; ++i) {
      const C v = row[i * stride], old = best[i];
      const std::int32_t at = indices[i];
      const bool takes = (at < 0) | pm::wins(v, old);
      best[i] = takes ? v : old;
      indices[i] = takes ? position + i * step : at;
    }
  });
}

template <class C>
void add(const Tap<C>& tap, C* HWY_RESTRICT sums) {
  const C* HWY_RESTRICT row = tap.row;
  const int n = tap.n;
  with_stride(tap.stride, [&](auto stride) {
    for (int i = 0; i < n; ++i) sums[i] += row[i * stride];
  });
}

template <class C>
void spread(const C* HWY_RESTRICT shares, std::int64_t stride_of, int n, C* HWY_RESTRICT sums) {
  with_stride(stride_of, [&](auto stride) {
    for (int i = 0; i < n; ++i) sums[i * stride] += shares[i];
  });
}

// Adding +0 changes nothing: a sum from +0 is never -0.
template <class C>
void give(const C* HWY_RESTRICT dy, const std::int32_t* HWY_RESTRICT indices, std::int32_t position,
          std::int64_t stride, int n, C* HWY_RESTRICT sums) {
  alignas(64) C shares[kPortion];
  const auto step = static_cast<std::int32_t>(stride);
  for (int i = 0; i < n; ++i) {
    const C v = dy[i];
    shares[i] = indices[i] == position + i * step ? v : C(0);
  }
  spread(shares, stride, n, sums);
}

template <class C>
void settle(C* values, int n) {
  for (int i = 0; i < n; ++i) values[i] = math::canonical(values[i]);
}

template <class C>
void divide(C* HWY_RESTRICT sums, const C* HWY_RESTRICT counts, int n) {
  for (int i = 0; i < n; ++i) sums[i] = math::canonical(sums[i] / counts[i]);
}

template <class C>
inline constexpr TapLoops<C> kTapLoops = {largest<C>, add<C>,    spread<C>,
                                          give<C>,    settle<C>, divide<C>};

}  // namespace

const TapLoops<float>* tap_loops_f32() { return &kTapLoops<float>; }
const TapLoops<double>* tap_loops_f64() { return &kTapLoops<double>; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(tap_loops_f32);
HWY_EXPORT(tap_loops_f64);

template <>
const TapLoops<float>& tap_loops<float>() {
  static const auto& table = *HWY_DYNAMIC_DISPATCH(tap_loops_f32)();
  return table;
}
template <>
const TapLoops<double>& tap_loops<double>() {
  static const auto& table = *HWY_DYNAMIC_DISPATCH(tap_loops_f64)();
  return table;
}

}  // namespace planck
#endif
