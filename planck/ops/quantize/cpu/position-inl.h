// Floats to integers, for ordinary groups: positions on the grid, and how bytes and nibbles of four
// vectors and more come together. Inside a per-target namespace, after vectors-inl.h.
#if defined(PLANCK_OPS_QUANTIZE_POSITION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_OPS_QUANTIZE_POSITION_INL_H_
#undef PLANCK_OPS_QUANTIZE_POSITION_INL_H_
#else
#define PLANCK_OPS_QUANTIZE_POSITION_INL_H_
#endif

#include <array>

#include "planck/ops/quantize/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
namespace {

struct Grid {
  V scale, inverse, x_lo, x_hi, lift;
};
constexpr auto make_grid = [](const PortionGroups<float>& g, auto read) {
  return Grid{read(g.v_scale), read(g.v_inverse), read(g.x_lo), read(g.x_hi), read(g.lift)};
};
// rint(x / s) clamped, plus kSnapWhole: an integer in the low bits. NaN: 0 in the low bits.
template <class E>
HWY_INLINE V position(const Grid& g, V x) {
  if constexpr (E::kHalf) {  // Min and Max return the second operand where one is NaN
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

// ---- bytes and nibbles ----

// The low bytes of four vectors as 32-bit words: word l has those of lane l of each.
HWY_INLINE VU merged_bytes(V v0, V v1, V v2, V v3) {
  const auto merged = [](V even, V odd) HWY_ATTR {
    return hn::OddEven(hn::BitCast(db, hn::ShiftLeft<8>(hn::BitCast(du, odd))),
                       hn::BitCast(db, even));
  };
  const auto low = merged(v0, v1), high = merged(v2, v3);
  return hn::BitCast(du, hn::OddEven(hn::BitCast(dh, hn::ShiftLeft<16>(hn::BitCast(du, high))),
                                     hn::BitCast(dh, low)));
}

// Bytes brought together within 16 bytes, then 32-bit words across.
HWY_INLINE hn::Vec<DB4> reordered(VU words, const std::uint8_t* within,
                                  const std::int32_t* across) {
  const auto bytes = hn::TableLookupBytes(hn::BitCast(db, words), hn::LoadDup128(db, within));
  return hn::BitCast(db,
                     hn::TableLookupLanes(hn::BitCast(du, bytes), hn::SetTableIndices(du, across)));
}
alignas(16) constexpr std::uint8_t kByFours[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                   2, 6, 10, 14, 3, 7, 11, 15};
alignas(16) constexpr std::uint8_t kByTwos[16] = {0, 1, 4, 5, 8,  9,  12, 13,
                                                  2, 3, 6, 7, 10, 11, 14, 15};

// The low bytes of two units, in the order of the elements.
template <bool kByHalves>
HWY_INLINE hn::Vec<DB4> low_bytes(Two v, Two w) {
  constexpr int kSixteens = kLanes / 4;
  alignas(64) static constexpr auto kAcross = [] {
    std::array<std::int32_t, kLanes> from{};
    for (int k = 0; k < kLanes; ++k) {
      const int part = kByHalves ? k / 2 : k;
      const int at = part % kSixteens * (kByHalves ? 2 : 4) + part / kSixteens;
      from[static_cast<std::size_t>(k)] = kByHalves ? 2 * at + k % 2 : at;
    }
    return from;
  }();
  return reordered(merged_bytes(v.a, v.b, w.a, w.b), kByHalves ? kByTwos : kByFours,
                   kAcross.data());
}

// a where a bit of the mask is set, else b. (IfVecThenElse needs whole lanes: with AVX2 it looks at
// the mask's top bits alone.)
HWY_INLINE VU selected(VU mask, VU a, VU b) {
  return hn::Or(hn::And(mask, a), hn::AndNot(mask, b));
}

// The low nibbles of four units, two to a byte, in the order of the elements. Neighbours are put
// together as soon as they are in one word (bf16, of one unit), or in two that lie side by side
// (of two units).
template <bool kByHalves>
struct Nibbles {
  static constexpr int kUnits = kByHalves ? 1 : 2;

  static HWY_INLINE VU pairs(const Two* t) {
    if constexpr (kByHalves)
      return selected(hn::Set(du, 0x0f), hn::BitCast(du, t[0].a),
                      hn::ShiftLeft<4>(hn::BitCast(du, t[0].b)));
    const hn::Repartition<std::uint64_t, D> d64;
    const VU words = merged_bytes(t[0].a, t[0].b, t[1].a, t[1].b);
    return selected(hn::Set(du, 0x0f0f0f0f), words,  // in the even words
                    hn::BitCast(du, hn::ShiftRight<28>(hn::BitCast(d64, words))));
  }
  // p: what pairs() makes of units 0, 1, …
  static HWY_INLINE hn::Vec<DB4> together(const VU* p) {
    if constexpr (kByHalves)
      return low_bytes<false>({hn::BitCast(d, p[0]), hn::BitCast(d, p[1])},
                              {hn::BitCast(d, p[2]), hn::BitCast(d, p[3])});
    alignas(64) static constexpr auto kAcross = [] {
      std::array<std::int32_t, kLanes> from{};
      constexpr int kHalf = kLanes / 2, kSixteens = kHalf / 4;
      for (int k = 0; k < kLanes; ++k) {
        const int at = k % kHalf;
        from[static_cast<std::size_t>(k)] = k / kHalf * kHalf + at % kSixteens * 4 + at / kSixteens;
      }
      return from;
    }();
    return reordered(hn::ConcatEven(du, p[1], p[0]), kByFours, kAcross.data());
  }
};

// Sums of nibbles, modulo 16.
HWY_INLINE hn::Vec<DB4> add_nibbles(hn::Vec<DB4> a, hn::Vec<DB4> b) {
  const auto low = hn::Set(db, 0x77), high = hn::Set(db, 0x88);
  return hn::Xor(hn::Add(hn::And(a, low), hn::And(b, low)), hn::And(hn::Xor(a, b), high));
}

// ---- loops ----

template <class E, bool kPacked>
struct QuantizeLoop {
  using N = Nibbles<E::kByHalves>;
  static constexpr int kLine = 4 * kUnit;  // elements whose nibbles fill a vector

  From<typename E::T> in;
  To<std::uint8_t> out;
  const std::uint8_t *zero_byte, *zero_pairs;
  GroupLayout layout;
  int run_shift, row_step;

  // with_groups(i, f) calls f with the groups of both vectors of the unit at i.
  template <class Groups>
  HWY_INLINE Two positions(int r, int i, Groups with_groups) const {
    const Two v = E::load(in.at(r, i));
    Two t;
    with_groups(i, [&](const Grid& ga, const Grid& gb) HWY_ATTR {
      t = {position<E>(ga, v.a), position<E>(gb, v.b)};
    });
    return t;
  }

  // 4 units, as nibbles.
  template <class Groups>
  HWY_INLINE void line(int r, int i, Groups with_groups) const {
    VU pairs[4 / N::kUnits];
    for (int p = 0; p < 4 / N::kUnits; ++p) {
      Two t[N::kUnits];
      for (int u = 0; u < N::kUnits; ++u)
        t[u] = positions(r, i + (p * N::kUnits + u) * kUnit, with_groups);
      pairs[p] = N::pairs(t);
    }
    const auto zeros = [&]() HWY_ATTR {
      if (layout == GroupLayout::each) return hn::LoadU(db, zero_pairs + i / 2);
      const int e = layout == GroupLayout::one ? r * row_step : i >> run_shift;
      return hn::Set(db, static_cast<std::uint8_t>((zero_byte[e] & 15) * 0x11));
    };
    put(add_nibbles(N::together(pairs), zeros()), db, out.at(r, i / 2), out.stream);
  }

  // 2 units.
  template <class Groups>
  HWY_INLINE void some(int r, int i, Groups with_groups) const {
    const auto zeros = [&]() HWY_ATTR {
      if (layout == GroupLayout::one) return hn::Set(db, zero_byte[r * row_step]);
      if (layout == GroupLayout::each) return hn::LoadU(db, zero_byte + i);
      return hn::Combine(db, hn::Set(DB2{}, zero_byte[(i + kUnit) >> run_shift]),
                         hn::Set(DB2{}, zero_byte[i >> run_shift]));
    };
    const Two v = positions(r, i, with_groups), w = positions(r, i + kUnit, with_groups);
    const auto bytes = hn::Add(low_bytes<E::kByHalves>(v, w), zeros());
    if constexpr (kPacked) {
      const auto halves = hn::BitCast(dh, hn::And(bytes, hn::Set(db, 0x0f)));
      put(hn::TruncateTo(DB2{}, hn::Or(halves, hn::ShiftRight<4>(halves))), DB2{}, out.at(r, i / 2),
          out.stream);
    } else {
      put(bytes, db, out.at(r, i), out.stream);
    }
  }

  template <class Groups>
  HWY_INLINE void row(int r, int begin, int end, Groups with_groups) const {
    int c = begin;
    if constexpr (kPacked && E::kHalf) {
      const int run = 1 << run_shift;
      const bool whole = layout != GroupLayout::runs || (run >= kLine && (begin & (run - 1)) == 0);
      for (; whole && c + kLine <= end; c += kLine) {
        for (int k = 0; k < kLine; k += kChunk) in.fetch(r, c + k);
        line(r, c, with_groups);
      }
    }
    for (; c < end; c += kChunk) {
      in.fetch(r, c);
      for (int i = c; i < c + kChunk; i += 2 * kUnit) some(r, i, with_groups);
    }
  }
};

// Row after row: two at once, which reads their groups once, is faster in the cache but takes half
// as long again from memory.
template <class E, bool kPacked>
void quantize_to(const PortionGroups<float>& groups, RowPart part, const Source& x, const Sink& q) {
  const PortionGroups<float> g = groups;
  const QuantizeLoop<E, kPacked> loop{From<typename E::T>(x),
                                      To<std::uint8_t>(q),
                                      g.zero_byte,
                                      g.zero_pairs,
                                      g.layout,
                                      g.run_shift,
                                      g.row_step};
  for (int r = 0; r < part.rows; ++r) {
    if (g.layout == GroupLayout::one) {
      const Grid one = make_grid(g, Read<false>{r * g.row_step});
      loop.row(r, part.begin, part.end, [&](int, auto f) HWY_ATTR { f(one, one); });
    } else if (g.layout == GroupLayout::runs && (1 << g.run_shift) >= kChunk) {
      for (int i = part.begin, end; i < part.end; i = end) {  // run by run
        const int e = i >> g.run_shift;
        end = std::min(part.end, (e + 1) << g.run_shift);
        QuantizeLoop<E, kPacked> of_run = loop;
        of_run.layout = GroupLayout::one;
        of_run.zero_byte = g.zero_byte + e;
        of_run.row_step = 0;
        const Grid run = make_grid(g, Read<false>{e});
        of_run.row(r, i, end, [&](int, auto f) HWY_ATTR { f(run, run); });
      }
    } else if (g.layout == GroupLayout::runs) {
      loop.row(r, part.begin, part.end, [&](int i, auto f) HWY_ATTR {
        const Grid run = make_grid(g, Read<false>{i >> g.run_shift});
        f(run, run);
      });
    } else {
      loop.row(r, part.begin, part.end, [&](int i, auto f) HWY_ATTR {
        f(make_grid(g, Read<true>{i}), make_grid(g, Read<true>{i + kLanes}));
      });
    }
  }
}

}  // namespace
#endif

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
