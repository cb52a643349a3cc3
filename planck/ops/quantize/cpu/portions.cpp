#include "planck/ops/quantize/cpu/portions.h"

#include <algorithm>
#include <type_traits>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/quantize/cpu/portions.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/quantize/cpu/groups-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

template <class C>
GridPath prepare(int n, const GroupNeeds& needs, GroupTable<C>& t) {
  const C* HWY_RESTRICT scale = t.scale;
  const std::int32_t* HWY_RESTRICT zero_point = t.zero_point;
  C* HWY_RESTRICT inverse = t.inverse;
  C* HWY_RESTRICT lo = t.lo;
  C* HWY_RESTRICT hi = t.hi;
  std::int32_t wide = 0, odd = 0, far = 0;  // 1 if any zero point, scale, range is
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

// The elements of a step, in the compute type: where they lie and where they go.
template <class C>
struct Plain {
  const C* HWY_RESTRICT in;
  C* HWY_RESTRICT out;
  HWY_INLINE C get(int k) const { return in[k]; }
  HWY_INLINE void set(int k, C v) const { out[k] = v; }
};

// Cuts rows of n elements into the part that the loops of ordinary.cpp do, ordinary(loops, part,
// sink), and the others: plain(row, begin, end, sink of that row). `element` is the dtype of the
// float operands in memory, same_dtype whether all of them have it.
template <class C, class Ordinary, class Others>
HWY_INLINE void split(const PortionGroups<C>& g, int rows, int n, bool same_dtype, Dtype element,
                      Sink to, Ordinary ordinary, Others plain) {
  // A sink streams from the start of a cache line on. Only one row with one group may start between
  // two lines.
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
void quantize(const PortionGroups<C>& g, int rows, int n, Source x, Sink sink) {
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
HWY_INLINE void unary(const PortionGroups<C>& g, int rows, int n, Source x, Sink sink,
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
HWY_INLINE void masked(const PortionGroups<C>& g, int rows, int n, Source dy, Source x, Sink sink,
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
void fake_quantize(const PortionGroups<C>& g, int rows, int n, Source x, Sink y) {
  unary(
      g, rows, n, x, y, [](const auto& loops) { return loops.fake_quantize; },
      [](const auto& at, C v) { return at.product(at.steps(v)); });
}

template <class C>
void quantize_backward(const PortionGroups<C>& g, int rows, int n, Source dy, Source x, Sink dx) {
  masked(
      g, rows, n, dy, x, dx, [](const auto& loops) { return loops.quantize_backward; },
      [](const auto& at, C d, bool inside) { return qm::ste(d, at.scale, inside); });
}

template <class C>
void fake_quantize_backward(const PortionGroups<C>& g, int rows, int n, Source dy, Source x,
                            Sink dx) {
  masked(
      g, rows, n, dy, x, dx, [](const auto& loops) { return loops.fake_quantize_backward; },
      [](const auto&, C d, bool inside) {
        const C passed = qm::canonical(d);
        return inside ? passed : C(0);
      });
}

template <class C>
void scale_by(const PortionGroups<C>& g, int rows, int n, Source dy, Sink dq) {
  PortionGroups<C> any = g;
  if (!is_ordinary(g.path)) any.path = GridPath::divide;  // positions are not used here
  unary(
      any, rows, n, dy, dq, [](const auto& loops) { return loops.scale_by; },
      [](const auto& at, C d) { return qm::canonical(at.scale * d); });
}

template <class C>
void dequantize(const PortionGroups<C>& g, int rows, int n, Source q, Sink sink) {
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
inline constexpr QuantPortions<C> kPortions = {
    prepare<C>,    quantize<C>, fake_quantize<C>, quantize_backward<C>, fake_quantize_backward<C>,
    dequantize<C>, scale_by<C>};

}  // namespace

const QuantPortions<float>* quant_portions_f32() { return &kPortions<float>; }
const QuantPortions<double>* quant_portions_f64() { return &kPortions<double>; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(quant_portions_f32);
HWY_EXPORT(quant_portions_f64);

template <>
const QuantPortions<float>& quant_portions<float>() {
  static const QuantPortions<float>& table = *HWY_DYNAMIC_DISPATCH(quant_portions_f32)();
  return table;
}
template <>
const QuantPortions<double>& quant_portions<double>() {
  static const QuantPortions<double>& table = *HWY_DYNAMIC_DISPATCH(quant_portions_f64)();
  return table;
}

template <class C>
void GroupTable<C>::prepare(int n, GroupLayout layout, int run_shift, const GroupNeeds& needs,
                            int row_step) {
  int count = n;
  if (layout == GroupLayout::each) {  // kernels read multiples of kChunk
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
  groups.path = quant_portions<C>().prepare(count, needs, *this);
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
