#include "planck/ops/quantize/quantize.blocks.h"

#include <type_traits>

#include "planck/loops/targets.h"
#include "planck/ops/quantize/quantize.math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/quantize/quantize.blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace qm = quantize_math;

template <GridPath kPath>
inline constexpr bool kAnyZero = kPath == GridPath::any_divide || kPath == GridPath::any_reciprocal;
template <GridPath kPath>
inline constexpr bool kReciprocal =
    kPath == GridPath::reciprocal || kPath == GridPath::any_reciprocal;

// One element's group: an entry of each array.
template <GridPath kPath, int kStep, class C>
struct At {
  const BlockGroups<C>& g;
  int i;

  HWY_INLINE C scale() const { return g.scale[i * kStep]; }
  HWY_INLINE std::int32_t z() const { return g.zero_point[i * kStep]; }
  HWY_INLINE C lo() const { return g.lo[i * kStep]; }
  HWY_INLINE C hi() const { return g.hi[i * kStep]; }
  HWY_INLINE C position(C x) const {
    return kReciprocal<kPath> ? x * g.inverse[i * kStep] : x / scale();
  }

  // q − z
  HWY_INLINE C steps(C x) const {
    if constexpr (kPath == GridPath::corrected)
      return qm::ordinary_quotient_steps(x, scale(), g.inverse[i * kStep], g.x_lo[i * kStep],
                                         g.x_hi[i * kStep]);
    else if constexpr (kAnyZero<kPath>)
      return qm::steps<C>(qm::quantized(position(x), z(), g.q_min, g.q_max), z());
    else
      return qm::ordinary_steps(position(x), lo(), hi());
  }
  HWY_INLINE std::int32_t quantized(C x) const {
    if constexpr (kAnyZero<kPath>)
      return qm::quantized(position(x), z(), g.q_min, g.q_max);
    else
      return static_cast<std::int32_t>(steps(x)) + z();
  }
  HWY_INLINE bool inside(C x) const {
    if constexpr (kPath == GridPath::corrected) {
      const C t = steps(x);  // one step beyond the range at most; NaN counts as 0
      return (x == x) & (t >= lo()) & (t <= hi());
    } else if constexpr (kAnyZero<kPath>) {
      return qm::in_range(position(x), z(), g.q_min, g.q_max);
    } else {
      const C t = qm::rint_of(position(x));
      return (t >= lo()) & (t <= hi());
    }
  }
};

// Runs body(At, i) over a block, with path and step as constants.
template <class C, class Body>
HWY_INLINE void each(const BlockGroups<C>& g, int n, Body body) {
  const auto loop = [&](auto path, auto step) {
    using P = decltype(path);
    using S = decltype(step);
    for (int i = 0; i < n; ++i) body(At<P::value, S::value, C>{g, i}, i);
  };
  const auto with_step = [&](auto path) {
    if (g.step == 0)
      loop(path, std::integral_constant<int, 0>{});
    else
      loop(path, std::integral_constant<int, 1>{});
  };
  switch (g.path) {
    case GridPath::corrected:
      if constexpr (std::is_same_v<C, float>)
        with_step(std::integral_constant<GridPath, GridPath::corrected>{});
      break;
    case GridPath::divide:
      with_step(std::integral_constant<GridPath, GridPath::divide>{});
      break;
    case GridPath::reciprocal:
      with_step(std::integral_constant<GridPath, GridPath::reciprocal>{});
      break;
    case GridPath::any_divide:
      with_step(std::integral_constant<GridPath, GridPath::any_divide>{});
      break;
    case GridPath::any_reciprocal:
      with_step(std::integral_constant<GridPath, GridPath::any_reciprocal>{});
      break;
  }
}

template <class C>
GridPath prepare(int n, const C* HWY_RESTRICT scale, const std::int32_t* HWY_RESTRICT zero_point,
                 std::int32_t q_min, std::int32_t q_max, bool reciprocal, int margin,
                 C* HWY_RESTRICT inverse, C* HWY_RESTRICT lo, C* HWY_RESTRICT hi,
                 C* HWY_RESTRICT x_lo, C* HWY_RESTRICT x_hi) {
  const C m = static_cast<C>(margin);
  std::int32_t wide = 0, odd = 0;  // any zero point, any scale that is not ordinary
  for (int i = 0; i < n; ++i) {
    const qm::Group<C> g = qm::make_group<C>(scale[i], zero_point[i], q_min, q_max);
    inverse[i] = g.inverse;
    lo[i] = g.lo;
    hi[i] = g.hi;
    x_lo[i] = (g.lo - m) * g.scale;
    x_hi[i] = (g.hi + m) * g.scale;
    wide |= g.ordinary ? 0 : 1;
    if constexpr (std::is_same_v<C, float>) odd |= qm::has_ordinary_quotient(g.scale) ? 0 : 1;
  }
  if (wide) return reciprocal ? GridPath::any_reciprocal : GridPath::any_divide;
  if (reciprocal) return GridPath::reciprocal;
  return std::is_same_v<C, float> && !odd ? GridPath::corrected : GridPath::divide;
}

template <class C>
void quantize(const BlockGroups<C>& g, int n, const C* HWY_RESTRICT x,
              std::uint8_t* HWY_RESTRICT q) {
  each(g, n, [=](auto at, int i) { q[i] = static_cast<std::uint8_t>(at.quantized(x[i])); });
}

template <class C>
void fake_quantize(const BlockGroups<C>& g, int n, const C* HWY_RESTRICT x, C* HWY_RESTRICT y) {
  each(g, n, [=](auto at, int i) { y[i] = qm::canonical(at.scale() * at.steps(x[i])); });
}

template <class C>
void quantize_backward(const BlockGroups<C>& g, int n, const C* HWY_RESTRICT dy,
                       const C* HWY_RESTRICT x, C* HWY_RESTRICT dx) {
  each(g, n, [=](auto at, int i) { dx[i] = qm::ste(dy[i], at.scale(), at.inside(x[i])); });
}

template <class C>
void fake_quantize_backward(const BlockGroups<C>& g, int n, const C* HWY_RESTRICT dy,
                            const C* HWY_RESTRICT x, C* HWY_RESTRICT dx) {
  each(g, n, [=](auto at, int i) {
    const C passed = qm::canonical(dy[i]);
    dx[i] = at.inside(x[i]) ? passed : C(0);
  });
}

template <int kStep, class C>
void dequantize_steps(const BlockGroups<C>& g, int n, const std::int32_t* HWY_RESTRICT q,
                      C* HWY_RESTRICT x) {
  if (g.path == GridPath::any_divide || g.path == GridPath::any_reciprocal) {
    for (int i = 0; i < n; ++i)
      x[i] = qm::canonical(g.scale[i * kStep] * qm::steps<C>(q[i], g.zero_point[i * kStep]));
  } else {  // q − z fits 32 bits
    for (int i = 0; i < n; ++i)
      x[i] = qm::canonical(g.scale[i * kStep] * static_cast<C>(q[i] - g.zero_point[i * kStep]));
  }
}
template <class C>
void dequantize(const BlockGroups<C>& g, int n, const std::int32_t* q, C* x) {
  g.step == 0 ? dequantize_steps<0>(g, n, q, x) : dequantize_steps<1>(g, n, q, x);
}

template <class C>
void scale_by(const BlockGroups<C>& g, int n, const C* HWY_RESTRICT dy, C* HWY_RESTRICT dq) {
  const C* HWY_RESTRICT scale = g.scale;
  if (g.step == 0)
    for (int i = 0; i < n; ++i) dq[i] = qm::canonical(scale[0] * dy[i]);
  else
    for (int i = 0; i < n; ++i) dq[i] = qm::canonical(scale[i] * dy[i]);
}

template <class C>
void learn(const BlockGroups<C>& g, int n, const C* HWY_RESTRICT dy, const C* HWY_RESTRICT x,
           C* HWY_RESTRICT dx, C* HWY_RESTRICT scale_terms, C* HWY_RESTRICT zero_point_terms) {
  each(g, n, [=](auto at, int i) {
    const bool inside = at.inside(x[i]);
    const C passed = qm::canonical(dy[i]);
    dx[i] = inside ? passed : C(0);
    scale_terms[i] = qm::scale_term(dy[i], at.position(x[i]), at.steps(x[i]), inside);
    zero_point_terms[i] = qm::zero_point_term(dy[i], at.scale(), inside);
  });
}

template <class C>
void include_each(int n, const C* HWY_RESTRICT x, C* HWY_RESTRICT lo, C* HWY_RESTRICT hi) {
  for (int i = 0; i < n; ++i) {
    qm::DataRange<C> r{lo[i], hi[i]};
    qm::include(r, x[i]);
    lo[i] = r.lo;
    hi[i] = r.hi;
  }
}

// Minimum and maximum of finite numbers do not depend on the order: lanes first, then across.
template <class C>
void include_all(int n, const C* HWY_RESTRICT x, C* lo, C* hi) {
  constexpr int kLanes = 64;
  C lows[kLanes], highs[kLanes];
  for (int k = 0; k < kLanes; ++k) {
    lows[k] = *lo;
    highs[k] = *hi;
  }
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) {
      const C v = qm::is_finite(x[i + k]) ? x[i + k] : C(0);
      lows[k] = v < lows[k] ? v : lows[k];
      highs[k] = v > highs[k] ? v : highs[k];
    }
  }
  include_each(n - i, x + i, lows, highs);
  for (int k = 0; k < kLanes; ++k) {
    *lo = lows[k] < *lo ? lows[k] : *lo;
    *hi = highs[k] > *hi ? highs[k] : *hi;
  }
}

template <class C>
C tree_sum(C* a, int n) {
  for (; n > 1; n = (n + 1) / 2) {
    const int pairs = n / 2;
#pragma GCC ivdep  // a[i] is written after everything that reads it
    for (int i = 0; i < pairs; ++i) a[i] = a[2 * i] + a[2 * i + 1];
    if (n % 2) a[pairs] = a[n - 1];
  }
  return a[0];
}

template <class C>
void add(int n, const C* a, const C* b, C* sum) {
  for (int i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

template <class C>
inline constexpr QuantBlocks<C> kBlocks = {
    prepare<C>,    quantize<C>, fake_quantize<C>, quantize_backward<C>, fake_quantize_backward<C>,
    dequantize<C>, scale_by<C>, learn<C>,         include_all<C>,       include_each<C>,
    tree_sum<C>,   add<C>};

}  // namespace

const QuantBlocks<float>* quant_blocks_f32() { return &kBlocks<float>; }
const QuantBlocks<double>* quant_blocks_f64() { return &kBlocks<double>; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(quant_blocks_f32);
HWY_EXPORT(quant_blocks_f64);

template <>
const QuantBlocks<float>& quant_blocks<float>() {
  static const QuantBlocks<float>& table = *HWY_DYNAMIC_DISPATCH(quant_blocks_f32)();
  return table;
}
template <>
const QuantBlocks<double>& quant_blocks<double>() {
  static const QuantBlocks<double>& table = *HWY_DYNAMIC_DISPATCH(quant_blocks_f64)();
  return table;
}

}  // namespace planck
#endif
