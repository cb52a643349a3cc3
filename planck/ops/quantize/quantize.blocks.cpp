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

  std::int32_t q_min, q_max, z;
  C scale, inverse, lo, hi;

  HWY_INLINE At(const BlockGroups<C>& g, int e)
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
    return qm::ordinary_in_range(position(x), lo, hi);
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

// Calls f(groups, path, layout) with both as constants.
template <class C, class F>
HWY_INLINE void with_constants(const BlockGroups<C>& g, F f) {
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

template <class C>
GridPath prepare(int n, const GroupNeeds& needs, GroupTable<C>& t) {
  const C* HWY_RESTRICT scale = t.scale;
  const std::int32_t* HWY_RESTRICT zero_point = t.zero_point;
  C* HWY_RESTRICT inverse = t.inverse;
  C* HWY_RESTRICT lo = t.lo;
  C* HWY_RESTRICT hi = t.hi;
  std::int32_t wide = 0, odd = 0, far = 0;  // any zero point, scale, range that is
  for (int i = 0; i < n; ++i) {
    const qm::Group<C> g = qm::make_group<C>(scale[i], zero_point[i], needs.q_min, needs.q_max);
    inverse[i] = g.inverse;
    lo[i] = g.lo;
    hi[i] = g.hi;
    wide |= g.ordinary ? 0 : 1;
    if constexpr (std::is_same_v<C, float>) {
      odd |= qm::has_ordinary_quotient(g.scale) ? 0 : 1;
      far |=
          (g.lo >= -qm::kSnapReach) & (g.lo <= 0) & (g.hi >= 0) & (g.hi <= qm::kSnapReach) ? 0 : 1;
    }
  }
  for (int i = 0; i < n; ++i) t.zero_byte[i] = static_cast<std::uint8_t>(zero_point[i]);
  if (wide) return needs.reciprocal ? GridPath::any_reciprocal : GridPath::any_divide;
  if (needs.reciprocal) return GridPath::reciprocal;
  if (std::is_same_v<C, double> || odd) return GridPath::divide;
  if (needs.element == Dtype::f32) return GridPath::corrected;
  return far ? GridPath::divide : GridPath::snapped;
}

// Elements of a step in the compute type where they lie, and where they go.
template <class C>
struct Plain {
  const C* HWY_RESTRICT in;
  C* HWY_RESTRICT out;
  HWY_INLINE C get(int k) const { return in[k]; }
  HWY_INLINE void set(int k, C v) const { out[k] = v; }
};

// Cuts rows of n elements into parts that the loops of quantize.ordinary.cpp do and others:
// ordinary(loops, part, sink), and plain(row, begin, end, sink of that row). `element` is the dtype
// of the float operands in memory, same_dtype whether they have the same one.
template <class C, class Ordinary, class Others>
HWY_INLINE void split(const BlockGroups<C>& g, int rows, int n, bool same_dtype, Dtype element,
                      Sink to, Ordinary ordinary, Others plain) {
  // A sink streams from the start of a line on. Neither several rows nor groups other than one can
  // start anywhere.
  const bool aligned = lead_of(to) == 0 && (rows == 1 || to.row % 64 == 0);
  const bool may_lead = rows == 1 && g.layout == GroupLayout::one;
  const int lead = may_lead ? std::min(n, lead_of(to)) : 0;
  if (!may_lead && !aligned) to.stream = false;
  if (lead > 0) plain(0, 0, lead, to);
  int done = lead;
  if constexpr (std::is_same_v<C, float>) {
    const bool half = element != Dtype::f32;
    if (is_ordinary(g.path) && same_dtype && half == (g.path == GridPath::snapped)) {
      done = lead + (n - lead) / kChunk * kChunk;
      ordinary(*ordinary_loops(), RowPart{rows, lead, done}, to);
    }
  }
  if (done < n)
    for (int r = 0; r < rows; ++r) plain(r, done, n, to.at_row(r));
}

template <class C>
void quantize(const BlockGroups<C>& g, int rows, int n, Source x, Sink sink) {
  split(
      g, rows, n, true, x.dtype, sink,
      [&](const auto& loops, RowPart part, const Sink& q) { loops.quantize(g, part, x, q); },
      [&](int r, int begin, int end, const Sink& q) {
        const Source from = x.at_row(r);
        with_constants(g.at_row(r), [&](const auto& groups, auto path, auto layout) {
          for_steps(begin, end, [&](int i, int m) {
            alignas(64) C buffer[kStep];
            alignas(64) std::uint8_t bytes[kStep];
            const C* in = load_step(from, i, m, buffer);
            each<path(), layout()>(
                groups, i, m, [&](int c) { prefetch_ahead(in + c, from.ahead); },
                [&](const auto& at, int k) { bytes[k] = at.quantized(in[k]); });
            store_q_step(q, i, m, bytes);
          });
        });
      });
}

// One float input, one float output.
template <class C, class Ordinary, class F>
HWY_INLINE void unary(const BlockGroups<C>& g, int rows, int n, Source x, Sink sink,
                      Ordinary ordinary, F f) {
  split(
      g, rows, n, x.dtype == sink.dtype, x.dtype, sink,
      [&](const auto& loops, RowPart part, const Sink& to) { ordinary(loops)(g, part, x, to); },
      [&](int r, int begin, int end, const Sink& to) {
        const Source from = x.at_row(r);
        with_constants(g.at_row(r), [&](const auto& groups, auto path, auto layout) {
          for_steps(begin, end, [&](int i, int m) {
            alignas(64) C buffer[kStep], out[kStep];
            const Plain<C> e{load_step(from, i, m, buffer), out};
            each<path(), layout()>(
                groups, i, m, [&](int c) { prefetch_ahead(e.in + c, from.ahead); },
                [&](const auto& at, int k) { e.set(k, f(at, e.get(k))); });
            store_step(to, i, m, out);
          });
        });
      });
}

// dy and x to dx.
template <class C, class Ordinary, class F>
HWY_INLINE void masked(const BlockGroups<C>& g, int rows, int n, Source dy, Source x, Sink sink,
                       Ordinary ordinary, F f) {
  split(
      g, rows, n, x.dtype == sink.dtype && dy.dtype == sink.dtype, x.dtype, sink,
      [&](const auto& loops, RowPart part, const Sink& dx) { ordinary(loops)(g, part, dy, x, dx); },
      [&](int r, int begin, int end, const Sink& dx) {
        const Source from = x.at_row(r), from2 = dy.at_row(r);
        with_constants(g.at_row(r), [&](const auto& groups, auto path, auto layout) {
          for_steps(begin, end, [&](int i, int m) {
            alignas(64) C buffer[kStep], buffer2[kStep], out[kStep];
            const Plain<C> e{load_step(from, i, m, buffer), out};
            const C* gradient = load_step(from2, i, m, buffer2);
            each<path(), layout()>(
                groups, i, m,
                [&](int c) {
                  prefetch_ahead(e.in + c, from.ahead);
                  prefetch_ahead(gradient + c, from2.ahead);
                },
                [&](const auto& at, int k) { e.set(k, f(at, gradient[k], at.inside(e.get(k)))); });
            store_step(dx, i, m, out);
          });
        });
      });
}

template <class C>
void fake_quantize(const BlockGroups<C>& g, int rows, int n, Source x, Sink y) {
  unary(
      g, rows, n, x, y, [](const auto& loops) { return loops.fake_quantize; },
      [](const auto& at, C v) { return at.product(at.steps(v)); });
}

template <class C>
void quantize_backward(const BlockGroups<C>& g, int rows, int n, Source dy, Source x, Sink dx) {
  masked(
      g, rows, n, dy, x, dx, [](const auto& loops) { return loops.quantize_backward; },
      [](const auto& at, C d, bool inside) { return qm::ste(d, at.scale, inside); });
}

template <class C>
void fake_quantize_backward(const BlockGroups<C>& g, int rows, int n, Source dy, Source x,
                            Sink dx) {
  masked(
      g, rows, n, dy, x, dx, [](const auto& loops) { return loops.fake_quantize_backward; },
      [](const auto&, C d, bool inside) {
        const C passed = qm::canonical(d);
        return inside ? passed : C(0);
      });
}

template <class C>
void scale_by(const BlockGroups<C>& g, int rows, int n, Source dy, Sink dq) {
  BlockGroups<C> any = g;
  if (!is_ordinary(g.path)) any.path = GridPath::divide;  // no position is looked for
  unary(
      any, rows, n, dy, dq, [](const auto& loops) { return loops.scale_by; },
      [](const auto& at, C d) { return qm::canonical(at.scale * d); });
}

template <class C>
void dequantize(const BlockGroups<C>& g, int rows, int n, Source q, Sink sink) {
  const std::int32_t sign = sign_of(q.dtype);
  split(
      g, rows, n, sign == g.sign, sink.dtype, sink,  // gathered 4-bit integers have another sign
      [&](const auto& loops, RowPart part, const Sink& x) { loops.dequantize(g, part, q, x); },
      [&](int r, int begin, int end, const Sink& x) {
        const Source from = q.at_row(r);
        with_constants(g.at_row(r), [&](const auto& groups, auto path, auto layout) {
          for_steps(begin, end, [&](int i, int m) {
            alignas(64) std::uint8_t buffer[kStep];
            alignas(64) C out[kStep];
            const std::uint8_t* in = load_q_step(from, i, m, buffer);
            each<path(), layout()>(
                groups, i, m, [&](int c) { prefetch_ahead(in + c, from.ahead); },
                [&](const auto& at, int k) {
                  const std::int32_t raw = in[k] ^ sign;  // the integer is raw − sign
                  out[k] = at.product(at.kAnyZero ? qm::steps<C>(raw - sign, at.z)
                                                  : static_cast<C>(raw - (sign + at.z)));
                });
            store_step(x, i, m, out);
          });
        });
      });
}

template <class C>
void learn(const BlockGroups<C>& g, int n, Source dy, Source x, Sink dx,
           C* HWY_RESTRICT scale_terms, C* HWY_RESTRICT zero_point_terms) {
  with_constants(g, [&](const auto& groups, auto path, auto layout) {
    for_steps(0, n, [&](int i, int m) {
      alignas(64) C buffer[kStep], buffer2[kStep], out[kStep];
      const C* in = load_step(x, i, m, buffer);
      const C* gradient = load_step(dy, i, m, buffer2);
      alignas(64) C ds[kStep], dz[kStep];
      each<path(), layout()>(
          groups, i, m,
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
  for_steps(0, n, [&](int i, int m) {
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
void include_finite(int begin, int end, Source x, C* lo, C* hi) {
  C lows[kChunk], highs[kChunk];
  for (int k = 0; k < kChunk; ++k) lows[k] = highs[k] = C(0);
  for_steps(begin, end, [&](int i, int m) {
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

// Infinities are rare: bounds with them first, and once more without them where there are any.
template <class C>
void include_all(int n, Source x, C* lo, C* hi) {
  int whole = 0;
  if constexpr (std::is_same_v<C, float>)
    if (const OrdinaryLoops* loops = ordinary_loops()) {
      C low = *lo, high = *hi;
      loops->bounds(n / kChunk * kChunk, x, &low, &high);
      if (qm::is_finite(low) && qm::is_finite(high)) {
        *lo = low;
        *hi = high;
        whole = n / kChunk * kChunk;
      }
    }
  if (whole < n) include_finite(whole, n, x, lo, hi);
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

template <class C>
void GroupTable<C>::prepare(int n, GroupLayout layout, int run_shift, const GroupNeeds& needs,
                            int row_step) {
  int count = n;
  if (layout == GroupLayout::each) {  // kernels read whole chunks
    std::fill_n(scale + n, kChunk, scale[n - 1]);
    std::fill_n(zero_point + n, kChunk, zero_point[n - 1]);
    count += kChunk;
  }
  groups.layout = layout;
  groups.run_shift = run_shift;
  groups.row_step = row_step;
  groups.q_min = needs.q_min;
  groups.q_max = needs.q_max;
  groups.sign = needs.sign;
  groups.scale = scale;
  groups.zero_point = zero_point;
  groups.inverse = inverse;
  groups.lo = lo;
  groups.hi = hi;
  groups.zero_byte = zero_byte;
  groups.path = quant_blocks<C>().prepare(count, needs, *this);
  if (!is_ordinary(groups.path)) return;
  if constexpr (std::is_same_v<C, float>)
    if (needs.ordinary && ordinary_loops() != nullptr)
      return ordinary_loops()->prepare(count, layout == GroupLayout::each ? n / kChunk * kChunk : 0,
                                       needs, *this);
  groups.path = GridPath::divide;
}
template struct GroupTable<float>;
template struct GroupTable<double>;

}  // namespace planck
#endif
