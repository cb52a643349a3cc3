// A step of a range: 256 elements at a time go through the formula of rule.math.h. Elements of the
// compute type are changed where they lie, 16-bit ones in arrays of the first-level cache. A plain
// loop, which the compiler vectorizes; choices that the rule makes are made outside of it.
#include <algorithm>

#include "planck/loops/cpu/targets.h"
#include "planck/math/reduction.h"
#include "planck/optim/step/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/optim/step/cpu/step.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/optim/step/rule.math.h"

HWY_BEFORE_NAMESPACE();
namespace planck::optim::HWY_NAMESPACE {
namespace {

namespace steps = planck::HWY_NAMESPACE;

template <class C>
struct Arrays {
  alignas(64) C w[kStep], g[kStep], slot[kStepSlots][kStep];
};

// [i, i + m) of a tensor: in place where it has the compute type, else widened into `buffer`. Here
// and below, once for all rules: a call costs nothing beside 256 elements.
template <class C>
HWY_NOINLINE C* load(void* data, Dtype dtype, std::int64_t i, int m, C* buffer) {
  if (dtype == dtype_of<C>) return static_cast<C*>(data) + i;
  if constexpr (std::is_same_v<C, float>) {
    const auto* in = static_cast<const std::uint16_t*>(data) + i;
    dtype == Dtype::f16 ? steps::widen_f16(in, m, buffer, 4096)
                        : steps::widen_bf16(in, m, buffer, 4096);
  }
  return buffer;
}
template <class C>
HWY_NOINLINE void store(void* data, Dtype dtype, std::int64_t i, int m, const C* values) {
  if (dtype == dtype_of<C>) return;  // it lies there
  if constexpr (std::is_same_v<C, float>) {
    auto* out = static_cast<std::uint16_t*>(data) + i;
    dtype == Dtype::f16 ? steps::narrow_f16(values, m, out) : steps::narrow_bf16(values, m, out);
  }
}

// The f32 weights: those of which w is the rounding, else w.
HWY_NOINLINE float* masters(const StepRow& row, std::int64_t i, int m, float* widened) {
  float* master = row.master + i;
  const auto* w = static_cast<const std::uint16_t*>(row.w) + i;
  alignas(64) std::uint16_t rounded[kStep];
  row.w_dtype == Dtype::f16 ? steps::narrow_f16(master, m, rounded)
                            : steps::narrow_bf16(master, m, rounded);
  load<float>(row.w, row.w_dtype, i, m, widened);
  for (int k = 0; k < m; ++k) master[k] = rounded[k] == w[k] ? master[k] : widened[k];
  return master;
}

// kFlags: decays 1, keeps 2.
template <StepKind kKind, unsigned kFlags, class C>
void formula(const StepNumbers<C>& given, C factor, int m, C* HWY_RESTRICT w,
             const C* HWY_RESTRICT g, C* HWY_RESTRICT a, C* HWY_RESTRICT b, C* HWY_RESTRICT c) {
  StepNumbers<C> n = given;
  n.decays = (kFlags & 1) != 0;
  n.keeps = (kFlags & 2) != 0;
  constexpr unsigned kSlots = kSlotsUsed<kKind>;
  const auto all = [&](auto with_b, auto with_c, auto with_a) {
    for (int k = 0; k < m; ++k) {
      StepElement<C> e{w[k], g[k] * factor, C(0), C(0), C(0)};
      if constexpr (decltype(with_a)::value) e.a = a[k];
      if constexpr (decltype(with_b)::value) e.b = b[k];
      if constexpr (decltype(with_c)::value) e.c = c[k];
      step_element<kKind>(n, e);
      if constexpr (kKind != StepKind::lamb) w[k] = reduce_math::canonical(e.w);
      if constexpr (decltype(with_a)::value) a[k] = reduce_math::canonical(e.a);
      if constexpr (decltype(with_b)::value) b[k] = reduce_math::canonical(e.b);
      if constexpr (decltype(with_c)::value) c[k] = reduce_math::canonical(e.c);
    }
  };
  using Yes = std::true_type;
  using No = std::false_type;
  // What a rule says of all elements is a constant in each loop: the compiler makes no more loops.
  if constexpr (kKind == StepKind::rmsprop) {
    const auto with = [&](auto moves, auto centered) {
      n.moves = decltype(moves)::value;
      n.centered = decltype(centered)::value;
      all(moves, centered, Yes());
    };
    if (given.moves) return given.centered ? with(Yes(), Yes()) : with(Yes(), No());
    given.centered ? with(No(), Yes()) : with(No(), No());
  } else if constexpr (kKind == StepKind::sgd) {
    const auto with = [&](auto moves, auto first, auto nesterov) {
      n.moves = decltype(moves)::value;
      n.first = decltype(first)::value;
      n.nesterov = decltype(nesterov)::value;
      all(No(), No(), moves);
    };
    if (!given.moves) return with(No(), No(), No());
    if (given.first) return given.nesterov ? with(Yes(), Yes(), Yes()) : with(Yes(), Yes(), No());
    given.nesterov ? with(Yes(), No(), Yes()) : with(Yes(), No(), No());
  } else {
    all(std::bool_constant<(kSlots & 2) != 0>(), std::bool_constant<(kSlots & 4) != 0>(), Yes());
  }
}

template <StepKind kKind, class C>
void range(const StepRow& row, std::int64_t begin, std::int64_t n) {
  const StepNumbers<C> numbers(row.rule);
  const auto factor =
      static_cast<C>(row.rule.gradient * (row.factor != nullptr ? *row.factor : 1.0));
  Arrays<C> arrays;
  for (std::int64_t i = begin; i < begin + n; i += kStep) {
    const int m = static_cast<int>(std::min<std::int64_t>(kStep, begin + n - i));
    C* w;
    if constexpr (std::is_same_v<C, float>)
      w = row.master != nullptr ? masters(row, i, m, arrays.w)
                                : load<C>(row.w, row.w_dtype, i, m, arrays.w);
    else
      w = load<C>(row.w, row.w_dtype, i, m, arrays.w);
    const C* g = load<C>(const_cast<void*>(row.g), row.g_dtype, i, m, arrays.g);
    C* slot[kStepSlots] = {};
    for (int s = 0; s < kStepSlots; ++s)
      if (row.slot[s] != nullptr)
        slot[s] = load<C>(row.slot[s], row.slot_dtype, i, m, arrays.slot[s]);
    const auto run = [&](auto flags) {
      formula<kKind, decltype(flags)::value>(numbers, factor, m, w, g, slot[0], slot[1], slot[2]);
    };
    switch ((row.rule.decays ? 1 : 0) + (row.rule.keeps ? 2 : 0)) {
      case 0:
        run(std::integral_constant<unsigned, 0>());
        break;
      case 1:
        run(std::integral_constant<unsigned, 1>());
        break;
      default:  // decoupled: both at once are no optimizer's
        run(std::integral_constant<unsigned, 2>());
    }
    if (kKind != StepKind::lamb) store(row.w, row.w_dtype, i, m, w);
    for (int s = 0; s < kStepSlots; ++s)
      if (slot[s] != nullptr) store(row.slot[s], row.slot_dtype, i, m, slot[s]);
  }
}

template <class C>
void any_range(const StepRow& row, std::int64_t begin, std::int64_t n) {
  switch (row.rule.kind) {
    case StepKind::sgd:
      return range<StepKind::sgd, C>(row, begin, n);
    case StepKind::adam:
      return range<StepKind::adam, C>(row, begin, n);
    case StepKind::adagrad:
      return range<StepKind::adagrad, C>(row, begin, n);
    case StepKind::rmsprop:
      return range<StepKind::rmsprop, C>(row, begin, n);
    case StepKind::lion:
      return range<StepKind::lion, C>(row, begin, n);
    case StepKind::lamb:
      return range<StepKind::lamb, C>(row, begin, n);
  }
}

}  // namespace

void step_of(const StepRow& row, std::int64_t begin, std::int64_t n) {
  row.w_dtype == Dtype::f64 ? any_range<double>(row, begin, n) : any_range<float>(row, begin, n);
}

}  // namespace planck::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck::optim {

HWY_EXPORT(step_of);
void step_range(const StepRow& row, std::int64_t begin, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(step_of)(row, begin, n);
}

}  // namespace planck::optim
#endif
