// Ordinary groups in f32 arithmetic: vector loops over whole chunks, straight from memory to
// memory.
//
// The ladder: ns for 64 elements in cache, one core at about 2 GHz, a scale for each of 4,096
// columns.
//                                             bf16 to s8   fake, bf16   s8 to bf16
//   vectors, a call for 1,024 elements             12.8         14.6         16.6
//   vectors, a call for a panel of rows             7.6         10.7          8.3
// The plain loops, vectorized by the compiler with two corrections of every quotient, took 15 for
// bf16 to s8 where lines are long.
#include <algorithm>

#include "planck/loops/targets.h"
#include "planck/ops/quantize/quantize.blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/quantize/quantize.ordinary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/quantize/quantize.vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
namespace {

// ---- the position on the grid ----

struct Grid {
  V scale, inverse, x_lo, x_hi, lift;
};
constexpr auto make_grid = [](const BlockGroups<float>& g, auto read) {
  return Grid{read(g.v_scale), read(g.v_inverse), read(g.x_lo), read(g.x_hi), read(g.lift)};
};
// rint(x / s) clamped, plus kSnapWhole: an integer in the low bits. NaN: 0 in the low bits.
template <class E>
HWY_INLINE V position(const Grid& g, V x) {
  if constexpr (E::kHalf) {  // the second operand is given back where one is NaN
    const V c = hn::Min(g.x_hi, hn::Max(g.x_lo, x));
    return hn::Add(hn::MulAdd(c, g.inverse, hn::Set(d, qm::kSnapFine)),
                   hn::Set(d, qm::kSnapWhole - qm::kSnapFine));
  } else {
    V c = hn::IfThenElseZero(hn::Eq(x, x), x);
    c = hn::Min(hn::Max(c, g.x_lo), g.x_hi);
    V q = hn::Mul(c, g.inverse);
    q = hn::MulAdd(hn::NegMulAdd(q, g.scale, c), g.inverse, q);
    q = hn::MulAdd(hn::NegMulAdd(q, g.scale, c), g.inverse, q);
    return hn::Add(q, hn::Set(d, qm::kSnapWhole));
  }
}

// The low bytes of two vectors, in the order of the elements.
template <class E>
HWY_INLINE hn::Vec<DB2> low_bytes(V a, V b) {
  const VU wa = hn::BitCast(du, a), wb = hn::BitCast(du, b);
  if constexpr (E::kByHalves) {
    const hn::Repartition<std::uint8_t, D> d8;
    const auto both = hn::OddEven(hn::BitCast(d8, hn::ShiftLeft<8>(wb)), hn::BitCast(d8, wa));
    return hn::BitCast(DB2{}, hn::TruncateTo(DH1{}, hn::BitCast(du, both)));
  } else {
    return hn::Combine(DB2{}, hn::TruncateTo(DB1{}, wb), hn::TruncateTo(DB1{}, wa));
  }
}

void quantize(const BlockGroups<float>& g, RowPart part, Source x, Sink q) {
  const std::uint8_t* zero_byte = g.zero_byte;
  const bool packed = is_packed(q.dtype);
  const To<std::uint8_t> out(q);
  with_element(x.dtype, [&](auto element) {
    using E = decltype(element);
    const From<typename E::T> in(x);
    for_units(
        g, part, make_grid, [=](int r, int c) { in.fetch(r, c); },
        [=](int r, int i, const Grid& ga, const Grid& gb, int e) {
          const Two v = E::load(in.at(r, i));
          auto bytes = low_bytes<E>(position<E>(ga, v.a), position<E>(gb, v.b));
          bytes = hn::Add(bytes,
                          e < 0 ? hn::LoadU(DB2{}, zero_byte + i) : hn::Set(DB2{}, zero_byte[e]));
          if (!packed) return put(bytes, DB2{}, out.at(r, i), out.stream);
          const hn::Repartition<std::uint16_t, DB2> d16;
          const auto w = hn::BitCast(d16, bytes);
          const auto pairs = hn::Or(hn::And(w, hn::Set(d16, 0x0f)),
                                    hn::And(hn::ShiftRight<4>(w), hn::Set(d16, 0xf0)));
          put(hn::TruncateTo(DB1{}, pairs), DB1{}, out.at(r, i / 2), out.stream);
        });
  });
}

void fake_quantize(const BlockGroups<float>& g, RowPart part, Source x, Sink y) {
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
constexpr auto make_mask = [](const BlockGroups<float>& g, auto read) {
  return Mask{read(g.v_scale), read(g.v_inverse), read(g.in_lo), read(g.in_hi)};
};

// Of 16-bit elements the quotient needs one correction: they are never near a rounding tie of f32.
// A chunk of gradients that are tiny, huge or NaN is divided.
void quantize_backward(const BlockGroups<float>& g, RowPart part, Source dy, Source x, Sink dx) {
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

void fake_quantize_backward(const BlockGroups<float>& g, RowPart part, Source dy, Source x,
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

void scale_by(const BlockGroups<float>& g, RowPart part, Source dy, Sink dq) {
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

// Bytes of a unit in the order of the elements; packed ones without their sign.
HWY_INLINE hn::Vec<DB2> load_bytes(const From<std::uint8_t>& in, bool packed, int r, int i) {
  if (!packed) return hn::LoadU(DB2{}, in.at(r, i));
  const hn::Repartition<std::uint16_t, DB2> d16;
  const auto w = hn::PromoteTo(d16, hn::LoadU(DB1{}, in.at(r, i / 2)));
  return hn::BitCast(DB2{}, hn::Or(hn::And(w, hn::Set(d16, 0x0f)),
                                   hn::And(hn::ShiftLeft<4>(w), hn::Set(d16, 0x0f00))));
}

void dequantize(const BlockGroups<float>& g, RowPart part, Source q, Sink x) {
  const auto sign = static_cast<std::uint8_t>(sign_of(q.dtype));
  const bool packed = is_packed(q.dtype);
  const From<std::uint8_t> in(q);
  struct Line {
    V scale, origin;
  };
  with_element(x.dtype, [&](auto element) {
    using E = decltype(element);
    const To<typename E::T> out(x);
    for_units(
        g, part,
        [](const auto& groups, auto read) {
          return Line{read(groups.v_scale), read(groups.origin)};
        },
        [=](int r, int c) { __builtin_prefetch(in.at(r, packed ? c / 2 : c) + in.ahead); },
        [=](int r, int i, const Line& la, const Line& lb, int) {
          const auto raw = hn::Xor(load_bytes(in, packed, r, i), hn::Set(DB2{}, sign));  // q + sign
          VU a, b;
          if constexpr (E::kByHalves) {
            const VU w = hn::PromoteTo(du, hn::BitCast(DH1{}, raw));
            a = hn::And(w, hn::Set(du, 0xff));
            b = hn::ShiftRight<8>(w);
          } else {
            a = hn::PromoteTo(du, hn::LowerHalf(DB1{}, raw));
            b = hn::PromoteTo(du, hn::UpperHalf(DB1{}, raw));
          }
          const auto value = [](const Line& line, VU v) {
            const V f = hn::ConvertTo(d, hn::BitCast(di, v));
            // 16 bits: s · (z + sign) is exact. f32: the origin is −(z + sign), and the sum is.
            return E::kHalf ? hn::MulAdd(f, line.scale, line.origin)
                            : hn::Mul(line.scale, hn::Add(f, line.origin));
          };
          E::store({value(la, a), value(lb, b)}, out.at(r, i), out.stream);
        });
  });
}

void bounds(int n, Source x, float* lo, float* hi) {
  with_element(x.dtype, [&](auto element) {
    using E = decltype(element);
    const From<typename E::T> in(x);
    V low_a = hn::Zero(d), low_b = low_a, high_a = low_a, high_b = low_a;
    for (int c = 0; c < n; c += kChunk) {
      in.fetch(0, c);
      for (int i = c; i < c + kChunk; i += kUnit) {
        const Two v = E::load(in.at(0, i));
        low_a = hn::Min(v.a, low_a);  // the second operand is given back where one is NaN
        low_b = hn::Min(v.b, low_b);
        high_a = hn::Max(v.a, high_a);
        high_b = hn::Max(v.b, high_b);
      }
    }
    *lo = std::min(*lo, hn::GetLane(hn::MinOfLanes(d, hn::Min(low_a, low_b))));
    *hi = std::max(*hi, hn::GetLane(hn::MaxOfLanes(d, hn::Max(high_a, high_b))));
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
  BlockGroups<float>& g = t.groups;
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
    dequantize, scale_by, bounds};

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
