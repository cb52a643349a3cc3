// Ordinary groups in f32 arithmetic: vector loops over multiples of kChunk elements, straight from
// memory to memory.
//
// Versions, ns per 64 elements in the cache, one core at about 2 GHz, one scale for each of 4,096
// columns:                                    bf16 to s8   fake, bf16   s8 to bf16
//   vectors, one call per 1,024 elements           12.8         14.6         16.6
//   vectors, one call per panel of rows             7.6         10.7          8.3
// The plain loops, vectorized by the compiler with two corrections of every quotient, took 15 for
// bf16 to s8 where lines are long.
//
// To nibbles, one scale per row and one per column:     in the cache          from memory
//                                                       bf16       f16        bf16
//   bytes first, then pairs of them                     6.1, 6.8   7.2, 7.4   7.8, 8.0
//   pairs as soon as neighbours meet, a line at a time  5.7, 6.0   6.7, 7.1   6.9, 7.6
// The 7.6 is what panels of 1,024 columns cost: a loop over them that reads and writes as much and
// computes nothing takes 7.6, one along whole rows 4.1. Prefetching a whole row of a panel at once
// took 10.6, two rows at once 12.
#include <algorithm>

#include "planck/loops/cpu/targets.h"
#include "planck/ops/quantize/cpu/portions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/quantize/cpu/ordinary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/quantize/cpu/bounds-inl.h"
#include "planck/ops/quantize/cpu/lookup-inl.h"
#include "planck/ops/quantize/cpu/position-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
namespace {

// ---- positions ----

void quantize(const PortionGroups<float>& g, RowPart part, Source x, Sink q) {
  with_element(x.dtype, [&](auto element) {
    using E = decltype(element);
    is_packed(q.dtype) ? quantize_to<E, true>(g, part, x, q) : quantize_to<E, false>(g, part, x, q);
  });
}

void fake_quantize(const PortionGroups<float>& g, RowPart part, Source x, Sink y) {
  with_element(x.dtype, [&](auto element) {
    using E = decltype(element);
    const From<typename E::T> in(x);
    const To<typename E::T> out(y);
    const auto value = [](const Grid& group, V v) {
      const V t = position<E>(group, v);
      if constexpr (E::kHalf)  // exact: s · kSnapWhole is one of f32's numbers
        return hn::IfThenElseZero(hn::Eq(v, v), hn::MulAdd(t, group.scale, group.lift));
      else
        return hn::Mul(group.scale, hn::Sub(t, hn::Set(d, qm::kSnapWhole)));
    };
    for_units(
        g, part, make_grid, [=](int r, int c) { in.fetch(r, c); },
        [=](int r, int i, const Grid& ga, const Grid& gb, int) {
          const Two v = E::load(in.at(r, i));
          E::store({value(ga, v.a), value(gb, v.b)}, out.at(r, i), out.stream);
        });
  });
}

// ---- gradients ----

struct Mask {
  V scale, inverse, in_lo, in_hi;
  HWY_INLINE auto inside(V x) const { return hn::And(hn::Ge(x, in_lo), hn::Le(x, in_hi)); }
};
constexpr auto make_mask = [](const PortionGroups<float>& g, auto read) {
  return Mask{read(g.v_scale), read(g.v_inverse), read(g.in_lo), read(g.in_hi)};
};

// Quotients of 16-bit elements need one correction: they are never near a rounding tie of f32.
// kChunk gradients with a tiny, huge or NaN one among them are divided.
void quantize_backward(const PortionGroups<float>& g, RowPart part, Source dy, Source x, Sink dx) {
  with_element(x.dtype, [&](auto element) {
    using E = decltype(element);
    const From<typename E::T> in(x), gradient(dy);
    const To<typename E::T> out(dx);
    const auto divided = [](const Mask& group, V v, V grad) {
      return canonical(hn::IfThenElseZero(group.inside(v), hn::Div(grad, group.scale)));
    };
    const auto corrected = [](const Mask& group, V v, V grad) {
      const V q = hn::Mul(grad, group.inverse);
      const V r = hn::MulAdd(hn::NegMulAdd(q, group.scale, grad), group.inverse, q);
      return hn::IfThenElseZero(group.inside(v), hn::CopySign(r, grad));  // −0 / s is −0
    };
    bool normal = false;
    for_units(
        g, part, make_mask,
        [&](int r, int c) {
          in.fetch(r, c);
          gradient.fetch(r, c);
          if constexpr (E::kHalf) normal = E::quotients_are_normal(gradient.at(r, c));
        },
        [&](int r, int i, const Mask& ga, const Mask& gb, int) {
          const Two v = E::load(in.at(r, i)), grad = E::load(gradient.at(r, i));
          const Two result = E::kHalf && normal
                                 ? Two{corrected(ga, v.a, grad.a), corrected(gb, v.b, grad.b)}
                                 : Two{divided(ga, v.a, grad.a), divided(gb, v.b, grad.b)};
          E::store(result, out.at(r, i), out.stream);
        });
  });
}

void fake_quantize_backward(const PortionGroups<float>& g, RowPart part, Source dy, Source x,
                            Sink dx) {
  with_element(x.dtype, [&](auto element) {
    using E = decltype(element);
    const From<typename E::T> in(x), gradient(dy);
    const To<typename E::T> out(dx);
    for_units(
        g, part, make_mask,
        [=](int r, int c) {
          in.fetch(r, c);
          gradient.fetch(r, c);
        },
        [=](int r, int i, const Mask& ga, const Mask& gb, int) {
          const Two v = E::load(in.at(r, i));
          if constexpr (E::kByHalves) {  // the gradient's bits need no conversion
            const auto bits = hn::LoadU(dh, gradient.at(r, i));
            const auto nan = hn::Gt(hn::And(bits, hn::Set(dh, 0x7fff)), hn::Set(dh, 0x7f80));
            const VU w = hn::BitCast(du, hn::IfThenElse(nan, hn::Set(dh, 0x7fc0), bits));
            const auto keep = [&](auto mask) {
              return hn::BitCast(dh, hn::IfThenElseZero(hn::RebindMask(du, mask), w));
            };
            put(hn::OddEven(keep(gb.inside(v.b)), keep(ga.inside(v.a))), dh, out.at(r, i),
                out.stream);
          } else {
            const Two grad = E::load(gradient.at(r, i));
            E::store({hn::IfThenElseZero(ga.inside(v.a), canonical(grad.a)),
                      hn::IfThenElseZero(gb.inside(v.b), canonical(grad.b))},
                     out.at(r, i), out.stream);
          }
        });
  });
}

void scale_by(const PortionGroups<float>& g, RowPart part, Source dy, Sink dq) {
  with_element(dy.dtype, [&](auto element) {
    using E = decltype(element);
    const From<typename E::T> in(dy);
    const To<typename E::T> out(dq);
    for_units(
        g, part, [](const auto& groups, auto read) { return read(groups.v_scale); },
        [=](int r, int c) { in.fetch(r, c); },
        [=](int r, int i, V sa, V sb, int) {
          const Two v = E::load(in.at(r, i));
          E::store({canonical(hn::Mul(sa, v.a)), canonical(hn::Mul(sb, v.b))}, out.at(r, i),
                   out.stream);
        });
  });
}

// ---- dequantize ----

// The bytes of a unit in the order of the elements; packed ones without their sign.
template <bool kPacked>
HWY_INLINE hn::Vec<DB2> load_bytes(const From<std::uint8_t>& in, int r, int i) {
  if constexpr (!kPacked) return hn::LoadU(DB2{}, in.at(r, i));
  const hn::Repartition<std::uint16_t, DB2> d16;
  const auto w = hn::PromoteTo(d16, hn::LoadU(DB1{}, in.at(r, i / 2)));
  return hn::BitCast(DB2{}, hn::Or(hn::And(w, hn::Set(d16, 0x0f)),
                                   hn::And(hn::ShiftLeft<4>(w), hn::Set(d16, 0x0f00))));
}

template <class E, bool kPacked>
void dequantize_to(const PortionGroups<float>& g, RowPart part, const Source& q, const Sink& x) {
  const auto sign = static_cast<std::uint8_t>(sign_of(q.dtype));
  const From<std::uint8_t> in(q);
  const To<typename E::T> out(x);
  for_units(
      g, part, make_line,
      [=](int r, int c) { __builtin_prefetch(in.at(r, kPacked ? c / 2 : c) + in.ahead); },
      [=](int r, int i, const Line& la, const Line& lb, int) {
        VU a, b;  // q + sign
        if constexpr (E::kByHalves && kPacked) {
          const VU w = hn::Xor(hn::PromoteTo(du, hn::LoadU(DB1{}, in.at(r, i / 2))),
                               hn::Set(du, sign * 0x11u));
          a = hn::And(w, hn::Set(du, 15));
          b = hn::ShiftRight<4>(w);
        } else {
          const auto raw = hn::Xor(load_bytes<kPacked>(in, r, i), hn::Set(DB2{}, sign));
          if constexpr (E::kByHalves) {
            const VU w = hn::PromoteTo(du, hn::BitCast(DH1{}, raw));
            a = hn::And(w, hn::Set(du, 0xff));
            b = hn::ShiftRight<8>(w);
          } else {
            a = hn::PromoteTo(du, hn::LowerHalf(DB1{}, raw));
            b = hn::PromoteTo(du, hn::UpperHalf(DB1{}, raw));
          }
        }
        E::store({value_on<E>(la, a), value_on<E>(lb, b)}, out.at(r, i), out.stream);
      });
}

void dequantize(const PortionGroups<float>& g, RowPart part, Source q, Sink x) {
  with_element(x.dtype, [&](auto element) {
    using E = decltype(element);
    if (!is_packed(q.dtype)) return dequantize_to<E, false>(g, part, q, x);
    if constexpr (E::kHalf) {
      const bool whole = g.layout == GroupLayout::one ||
                         (g.layout == GroupLayout::runs && (1 << g.run_shift) >= kChunk &&
                          part.begin % kChunk == 0);
      if (whole) return look_up<E>(g, part, q, x);
    }
    dequantize_to<E, true>(g, part, q, x);
  });
}

// ---- what the loops need of each group ----

void prepare(int n, int whole, const GroupNeeds& needs, GroupTable<float>& t) {
  float* HWY_RESTRICT x_lo = t.ordered[2];
  float* HWY_RESTRICT x_hi = t.ordered[3];
  float* HWY_RESTRICT lift = t.ordered[6];
  float* HWY_RESTRICT origin = t.ordered[7];
  const float* HWY_RESTRICT scale = t.scale;
  const bool half = needs.element != Dtype::f32;
  for (int i = 0; i < n; ++i) {
    const float zero = static_cast<float>(t.zero_point[i] + needs.sign);
    x_lo[i] = t.lo[i] * scale[i];
    x_hi[i] = t.hi[i] * scale[i];
    lift[i] = -qm::kSnapWhole * scale[i];
    origin[i] = half ? -zero * scale[i] : -zero;
  }
  if (needs.masks) {
    float* HWY_RESTRICT in_lo = t.ordered[4];
    float* HWY_RESTRICT in_hi = t.ordered[5];
    const float* HWY_RESTRICT inverse = t.inverse;
    for (int i = 0; i < n; ++i) {
      in_lo[i] = qm::first_in_range(t.lo[i], scale[i], inverse[i]);
      in_hi[i] = qm::last_in_range(t.hi[i], scale[i], inverse[i]);
    }
  }
  for (int i = 0; i < n / 2; ++i)
    t.zero_pairs[i] =
        static_cast<std::uint8_t>((t.zero_byte[2 * i] & 15) | (t.zero_byte[2 * i + 1] << 4));
  PortionGroups<float>& g = t.groups;
  g.zero_pairs = t.zero_pairs;
  g.v_scale = t.scale;
  g.v_inverse = t.inverse;
  g.x_lo = x_lo;
  g.x_hi = x_hi;
  g.in_lo = t.ordered[4];
  g.in_hi = t.ordered[5];
  g.lift = lift;
  g.origin = origin;
  if (needs.element != Dtype::bf16 || whole == 0) return;
  const auto reorder = [&](const float* from, float* to) {
    for (int i = 0; i < whole; i += kUnit) {
      const V a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + kLanes);
      hn::StoreU(hn::ConcatEven(d, b, a), d, to + i);
      hn::StoreU(hn::ConcatOdd(d, b, a), d, to + i + kLanes);
    }
  };
  for (int k = 2; k < 8; ++k)
    if (needs.masks || (k != 4 && k != 5)) reorder(t.ordered[k], t.ordered[k]);
  reorder(t.scale, t.ordered[0]);
  reorder(t.inverse, t.ordered[1]);
  g.v_scale = t.ordered[0];
  g.v_inverse = t.ordered[1];
}

constexpr OrdinaryLoops kLoops = {
    prepare,    quantize, fake_quantize, quantize_backward, fake_quantize_backward,
    dequantize, scale_by, bounds,        bounds_each};

}  // namespace

const OrdinaryLoops* ordinary_table() { return &kLoops; }
#else
const OrdinaryLoops* ordinary_table() { return nullptr; }
#endif

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(ordinary_table);

const OrdinaryLoops* ordinary_loops() {
  static const OrdinaryLoops* loops = HWY_DYNAMIC_DISPATCH(ordinary_table)();
  return loops;
}

}  // namespace planck
#endif
