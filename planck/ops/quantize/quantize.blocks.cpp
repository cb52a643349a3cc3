#include "planck/ops/quantize/quantize.blocks.h"

#include <algorithm>
#include <type_traits>

#include "planck/loops/targets.h"
#include "planck/ops/quantize/quantize.math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/quantize/quantize.blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace qm = quantize_math;

// The group of one element, by value: in loops over one group it stays in registers.
template <GridPath kPath, class C>
struct At {
  static constexpr bool kAnyZero =
      kPath == GridPath::any_divide || kPath == GridPath::any_reciprocal;
  static constexpr bool kReciprocal =
      kPath == GridPath::reciprocal || kPath == GridPath::any_reciprocal;
  static constexpr bool kCorrected = kPath == GridPath::corrected;

  std::int32_t q_min, q_max, z;
  C scale, inverse, lo, hi, x_lo, x_hi;

  HWY_INLINE At(const BlockGroups<C>& g, int e)
      : q_min(g.q_min),
        q_max(g.q_max),
        z(g.zero_point[e]),
        scale(g.scale[e]),
        inverse(kCorrected || kReciprocal ? g.inverse[e] : C(0)),
        lo(kAnyZero ? C(0) : g.lo[e]),
        hi(kAnyZero ? C(0) : g.hi[e]),
        x_lo(kCorrected ? g.x_lo[e] : C(0)),
        x_hi(kCorrected ? g.x_hi[e] : C(0)) {}

  HWY_INLINE C position(C x) const { return kReciprocal ? x * inverse : x / scale; }
  // s · steps; an ordinary scale times a finite number is no NaN.
  HWY_INLINE C product(C steps) const {
    const C y = scale * steps;
    return kCorrected ? y : qm::canonical(y);
  }
  // q − z
  HWY_INLINE C steps(C x) const {
    if constexpr (kCorrected)
      return qm::ordinary_quotient_steps(x, scale, inverse, x_lo, x_hi);
    else if constexpr (kAnyZero)
      return qm::steps<C>(qm::quantized(position(x), z, q_min, q_max), z);
    else
      return qm::ordinary_steps(position(x), lo, hi);
  }
  // The low byte of q.
  HWY_INLINE std::uint8_t quantized(C x) const {
    if constexpr (kCorrected)
      return qm::ordinary_quotient_byte(x, scale, inverse, x_lo, x_hi, z);
    else if constexpr (kAnyZero)
      return static_cast<std::uint8_t>(qm::quantized(position(x), z, q_min, q_max));
    else
      return static_cast<std::uint8_t>(static_cast<std::int32_t>(steps(x)) + z);
  }
  HWY_INLINE bool inside(C x) const {
    if constexpr (kAnyZero) return qm::in_range(position(x), z, q_min, q_max);
    // Corrected: one step beyond the range at most, and NaN counts as 0.
    const C t = kCorrected ? steps(x) : qm::rint_of(position(x));
    return (x == x) & (t >= lo) & (t <= hi);
  }
};

// Calls body(At, k) for the m elements from i on, in whole chunks, each after ahead(its first k).
// Zero points of any size take the plain way: one loop for all layouts. What body writes is a
// buffer of its own, which the compiler cannot see: ivdep tells it.
template <GridPath kPath, GroupLayout kLayout, class C, class Ahead, class Body>
HWY_INLINE void each(BlockGroups<C> g, int i, int m, Ahead ahead, Body body) {
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

// Calls f(path, layout) with both as constants.
template <class C, class F>
HWY_INLINE void with_constants(const BlockGroups<C>& g, F f) {
  using P = GridPath;
  using L = GroupLayout;
  const auto with_layout = [&](auto path) {
    if (g.layout == L::one)
      f(path, std::integral_constant<L, L::one>{});
    else if (g.layout == L::runs)
      f(path, std::integral_constant<L, L::runs>{});
    else
      f(path, std::integral_constant<L, L::each>{});
  };
  if constexpr (std::is_same_v<C, float>)
    if (g.path == P::corrected) return with_layout(std::integral_constant<P, P::corrected>{});
  if (g.path == P::divide) return with_layout(std::integral_constant<P, P::divide>{});
  if (g.path == P::reciprocal) return with_layout(std::integral_constant<P, P::reciprocal>{});
  const std::integral_constant<L, L::each> any_layout;
  if (g.path == P::any_divide) return f(std::integral_constant<P, P::any_divide>{}, any_layout);
  f(std::integral_constant<P, P::any_reciprocal>{}, any_layout);
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
  const bool has_fma = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;
  return has_fma && std::is_same_v<C, float> && !odd ? GridPath::corrected : GridPath::divide;
}

// Elements of a step where they lie: the compute type, or bf16 that is converted on the way.
template <class C>
struct Plain {
  const C* HWY_RESTRICT in;
  C* HWY_RESTRICT out;
  HWY_INLINE C get(int k) const { return in[k]; }
  HWY_INLINE void set(int k, C v) const { out[k] = v; }
};
struct Brain {
  const std::uint16_t* HWY_RESTRICT in;
  std::uint16_t* HWY_RESTRICT out;
  HWY_INLINE float get(int k) const { return widened(in[k]); }
  HWY_INLINE void set(int k, float v) const { out[k] = narrowed(v); }
};
HWY_INLINE bool brain_step(const Source& from, int m) {
  return from.dtype == Dtype::bf16 && m % kChunk == 0;
}
HWY_INLINE const std::uint16_t* brain_at(const Source& from, int i) {
  return static_cast<const std::uint16_t*>(from.data) + i;
}

template <class C>
void quantize(const BlockGroups<C>& g, int n, Source x, Sink q) {
  with_constants(g, [&](auto path, auto layout) {
    for_steps(n, lead_of(q), [&](int i, int m) {
      alignas(64) C buffer[kStep];
      alignas(64) std::uint8_t bytes[kStep];
      const auto run = [&](auto e) {
        each<path(), layout()>(
            g, i, m, [&](int c) { prefetch_ahead(e.in + c, x.ahead); },
            [&](const auto& at, int k) { bytes[k] = at.quantized(e.get(k)); });
      };
      if constexpr (std::is_same_v<C, float>)
        if (brain_step(x, m)) {
          run(Brain{brain_at(x, i), nullptr});
          return store_q_step(q, i, m, bytes);
        }
      run(Plain<C>{load_step(x, i, m, buffer), nullptr});
      store_q_step(q, i, m, bytes);
    });
  });
}

// One float input, one float output.
template <class C, class F>
HWY_INLINE void unary(const BlockGroups<C>& g, int n, Source from, Sink to, F f) {
  with_constants(g, [&](auto path, auto layout) {
    for_steps(n, lead_of(to), [&](int i, int m) {
      const auto run = [&](auto e) {
        each<path(), layout()>(
            g, i, m, [&](int c) { prefetch_ahead(e.in + c, from.ahead); },
            [&](const auto& at, int k) { e.set(k, f(at, e.get(k))); });
      };
      if constexpr (std::is_same_v<C, float>)
        if (brain_step(from, m) && to.dtype == Dtype::bf16) {
          alignas(64) std::uint16_t out[kStep];
          run(Brain{brain_at(from, i), out});
          return store_brain_step(to, i, m, out);
        }
      alignas(64) C buffer[kStep], out[kStep];
      run(Plain<C>{load_step(from, i, m, buffer), out});
      store_step(to, i, m, out);
    });
  });
}

// dy and x to dx.
template <class C, class F>
HWY_INLINE void masked(const BlockGroups<C>& g, int n, Source dy, Source x, Sink dx, F f) {
  with_constants(g, [&](auto path, auto layout) {
    for_steps(n, lead_of(dx), [&](int i, int m) {
      const auto run = [&](auto e, auto gradient) {
        each<path(), layout()>(
            g, i, m,
            [&](int c) {
              prefetch_ahead(e.in + c, x.ahead);
              prefetch_ahead(gradient.in + c, dy.ahead);
            },
            [&](const auto& at, int k) { e.set(k, f(at, gradient.get(k), at.inside(e.get(k)))); });
      };
      if constexpr (std::is_same_v<C, float>)
        if (brain_step(x, m) && brain_step(dy, m) && dx.dtype == Dtype::bf16) {
          alignas(64) std::uint16_t out[kStep];
          run(Brain{brain_at(x, i), out}, Brain{brain_at(dy, i), nullptr});
          return store_brain_step(dx, i, m, out);
        }
      alignas(64) C buffer[kStep], buffer2[kStep], out[kStep];
      run(Plain<C>{load_step(x, i, m, buffer), out},
          Plain<C>{load_step(dy, i, m, buffer2), nullptr});
      store_step(dx, i, m, out);
    });
  });
}

template <class C>
void fake_quantize(const BlockGroups<C>& g, int n, Source x, Sink y) {
  unary(g, n, x, y, [](const auto& at, C v) { return at.product(at.steps(v)); });
}

template <class C>
void quantize_backward(const BlockGroups<C>& g, int n, Source dy, Source x, Sink dx) {
  masked(g, n, dy, x, dx,
         [](const auto& at, C d, bool inside) { return qm::ste(d, at.scale, inside); });
}

template <class C>
void fake_quantize_backward(const BlockGroups<C>& g, int n, Source dy, Source x, Sink dx) {
  masked(g, n, dy, x, dx, [](const auto&, C d, bool inside) {
    const C passed = qm::canonical(d);
    return inside ? passed : C(0);
  });
}

template <class C>
void scale_by(const BlockGroups<C>& g, int n, Source dy, Sink dq) {
  BlockGroups<C> any = g;
  any.path = GridPath::divide;  // no position is looked for
  unary(any, n, dy, dq, [](const auto& at, C d) { return qm::canonical(at.scale * d); });
}

template <class C>
void dequantize(const BlockGroups<C>& g, int n, Source q, Sink x) {
  const std::int32_t sign = sign_of(q.dtype);
  with_constants(g, [&](auto path, auto layout) {
    for_steps(n, lead_of(x), [&](int i, int m) {
      alignas(64) std::uint8_t buffer[kStep];
      const std::uint8_t* in = load_q_step(q, i, m, buffer);
      const auto run = [&](auto e) {
        each<path(), layout()>(
            g, i, m, [&](int c) { prefetch_ahead(in + c, q.ahead); },
            [&](const auto& at, int k) {
              const std::int32_t raw = in[k] ^ sign;  // the integer is raw − sign
              e.set(k, at.product(at.kAnyZero ? qm::steps<C>(raw - sign, at.z)
                                              : static_cast<C>(raw - (sign + at.z))));
            });
      };
      if constexpr (std::is_same_v<C, float>)
        if (x.dtype == Dtype::bf16) {
          alignas(64) std::uint16_t out[kStep];
          run(Brain{nullptr, out});
          return store_brain_step(x, i, m, out);
        }
      alignas(64) C out[kStep];
      run(Plain<C>{nullptr, out});
      store_step(x, i, m, out);
    });
  });
}

template <class C>
void learn(const BlockGroups<C>& g, int n, Source dy, Source x, Sink dx,
           C* HWY_RESTRICT scale_terms, C* HWY_RESTRICT zero_point_terms) {
  with_constants(g, [&](auto path, auto layout) {
    for_steps(n, lead_of(dx), [&](int i, int m) {
      alignas(64) C buffer[kStep], buffer2[kStep], out[kStep];
      const C* in = load_step(x, i, m, buffer);
      const C* gradient = load_step(dy, i, m, buffer2);
      alignas(64) C ds[kStep], dz[kStep];
      each<path(), layout()>(
          g, i, m,
          [&](int c) {
            prefetch_ahead(in + c, x.ahead);
            prefetch_ahead(gradient + c, dy.ahead);
          },
          [&](const auto& at, int k) {
            const bool inside = at.inside(in[k]);
            const C passed = qm::canonical(gradient[k]);
            out[k] = inside ? passed : C(0);
            ds[k] = qm::scale_term(gradient[k], at.position(in[k]), at.steps(in[k]), inside);
            dz[k] = qm::zero_point_term(gradient[k], at.scale, inside);
          });
      std::copy_n(ds, m, scale_terms + i);
      std::copy_n(dz, m, zero_point_terms + i);
      store_step(dx, i, m, out);
    });
  });
}

template <class C>
void include_each(int n, Source x, C* HWY_RESTRICT lo, C* HWY_RESTRICT hi) {
  for_steps(n, 0, [&](int i, int m) {
    alignas(64) C buffer[kStep];
    const C* HWY_RESTRICT in = load_step(x, i, m, buffer);
    for (int c = 0; c < m; c += kChunk) {
      prefetch_ahead(in + c, x.ahead);
      const int end = m - c < kChunk ? m : c + kChunk;
#pragma GCC ivdep
      for (int k = c; k < end; ++k) {
        const C v = qm::is_finite(in[k]) ? in[k] : C(0);
        lo[i + k] = v < lo[i + k] ? v : lo[i + k];
        hi[i + k] = v > hi[i + k] ? v : hi[i + k];
      }
    }
  });
}

// Minimum and maximum of finite numbers do not depend on the order: lanes first, then across.
template <class C>
void include_all(int n, Source x, C* lo, C* hi) {
  C lows[kChunk], highs[kChunk];
  for (int k = 0; k < kChunk; ++k) lows[k] = highs[k] = C(0);
  for_steps(n, 0, [&](int i, int m) {
    alignas(64) C buffer[kStep];
    const C* HWY_RESTRICT in = load_step(x, i, m, buffer);
    for (int c = 0; c < m; c += kChunk) {  // what fills up a chunk is 0, inside every range
      prefetch_ahead(in + c, x.ahead);
      for (int k = 0; k < kChunk; ++k) {
        const C v = qm::is_finite(in[c + k]) ? in[c + k] : C(0);
        lows[k] = v < lows[k] ? v : lows[k];
        highs[k] = v > highs[k] ? v : highs[k];
      }
    }
  });
  for (int width = kChunk / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) {
      lows[k] = lows[k + width] < lows[k] ? lows[k + width] : lows[k];
      highs[k] = highs[k + width] > highs[k] ? highs[k + width] : highs[k];
    }
  *lo = lows[0] < *lo ? lows[0] : *lo;
  *hi = highs[0] > *hi ? highs[0] : *hi;
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
