// Loops of the elementwise family over f16 and bf16 as they are stored, for the functions that have
// a shorter form in 16 bits (math/narrow.h). bf16 stays in registers from load to store.
#include "planck/ops/elementwise/cpu/loops.h"

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/elementwise/cpu/loops.half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace em = elementwise_math;
using elementwise_cpu::HalfLoops;
using elementwise_cpu::LoopScalars;
using elementwise_cpu::LoopTable;

// y = f(a, b) for at most kChunk elements; b may be null.
template <class T, class Function>
HWY_INLINE void map_stored(const void* a, const void* b, void* y, int n, const Function& f) {
  const auto* HWY_RESTRICT left = static_cast<const std::uint16_t*>(a);
  const auto* HWY_RESTRICT right = static_cast<const std::uint16_t*>(b == nullptr ? a : b);
  auto* HWY_RESTRICT out = static_cast<std::uint16_t*>(y);
  if constexpr (std::is_same_v<T, bf16>) {
    for (int i = 0; i < n; ++i)
      out[i] = narrowed(math::canonical(f(widened(left[i]), widened(right[i]))));
  } else {
    alignas(64) float p[kChunk], q[kChunk] = {};
    widen_f16(left, n, p, 0);
    if (b != nullptr) widen_f16(right, n, q, 0);
    for (int i = 0; i < n; ++i) p[i] = math::canonical(f(p[i], q[i]));
    narrow_f16(p, n, out);
  }
}

template <class F, class T>
void half_unary(const void* a, const void*, const void*, void* y, int n, const LoopScalars& s) {
  if constexpr (em::HasFar<F>) {
    map_stored<T>(a, nullptr, y, n, [](float x, float) { return F::template narrow_near<T>(x); });
    if constexpr (std::is_same_v<T, bf16>) {
      const auto* HWY_RESTRICT in = static_cast<const std::uint16_t*>(a);
      int far = 0;
      for (int i = 0; i < n; ++i) far |= math::far_from_zero(widened(in[i]));
      for (int i = 0; far != 0 && i < n; ++i)
        if (math::far_from_zero(widened(in[i])))
          static_cast<std::uint16_t*>(y)[i] =
              narrowed(math::canonical(F::of(widened(in[i]), s.f32)));
    }
  } else {
    map_stored<T>(a, nullptr, y, n, [](float x, float) { return F::template narrow<T>(x); });
  }
}

template <class F, class T>
void half_binary(const void* a, const void* b, const void*, void* y, int n, const LoopScalars&) {
  map_stored<T>(a, b, y, n, [](float p, float q) { return F::template narrow<T>(p, q); });
}

template <class T, class... F>
constexpr void put_unary(LoopTable& table, em::Ops<F...>) {
  ((table.loop[static_cast<std::size_t>(F::kOp)] = &half_unary<F, T>), ...);
}
template <class T, class... F>
constexpr void put_binary(LoopTable& table, em::Ops<F...>) {
  ((table.loop[static_cast<std::size_t>(F::kOp)] = &half_binary<F, T>), ...);
}
template <class T>
constexpr LoopTable table_of() {
  LoopTable table;
  put_unary<T>(table, em::NarrowUnary{});
  put_binary<T>(table, em::NarrowBinary{});
  return table;
}

}  // namespace

const HalfLoops* half_loop_tables() {
  static constexpr HalfLoops kTables = {table_of<f16>(), table_of<bf16>()};
  return &kTables;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck::elementwise_cpu {

HWY_EXPORT(half_loop_tables);

const HalfLoops& half_loops() {
  static const HalfLoops& tables = *HWY_DYNAMIC_DISPATCH(half_loop_tables)();
  return tables;
}

}  // namespace planck::elementwise_cpu
#endif
