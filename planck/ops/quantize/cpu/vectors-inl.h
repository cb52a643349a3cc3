// Vectors of ordinary groups: elements in memory and groups as vector loops read them, inside a
// per-target namespace (include after hwy/highway.h, within foreach_target's passes). For
// instruction sets with fused multiply-add.
//
// Two vectors are one unit of work. bf16 is widened in place, the even elements from the low and
// the odd ones from the high halves of 32-bit words, and merged again at the end: no lane crosses
// another. f16 and f32 keep their order.
#if defined(PLANCK_OPS_QUANTIZE_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_OPS_QUANTIZE_VECTORS_INL_H_
#undef PLANCK_OPS_QUANTIZE_VECTORS_INL_H_
#else
#define PLANCK_OPS_QUANTIZE_VECTORS_INL_H_
#endif

#include "planck/loops/cpu/steps-inl.h"
#include "planck/math/bf16-inl.h"
#include "planck/ops/quantize/cpu/portions.h"
#include "planck/ops/quantize/quantize.math.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
namespace {

namespace qm = quantize_math;

using D = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<D>;
using DI = hn::RebindToSigned<D>;
using DH = hn::Repartition<std::uint16_t, D>;  // as many bits
using DH1 = hn::Rebind<std::uint16_t, D>;      // as many lanes
using DF16 = hn::Rebind<hwy::float16_t, D>;
using DB2 = hn::Rebind<std::uint8_t, DH>;  // two bytes per lane
using DB1 = hn::Rebind<std::uint8_t, D>;   // one byte per lane
using DB4 = hn::Repartition<std::uint8_t, D>;
using V = hn::Vec<D>;
using VU = hn::Vec<DU>;
constexpr D d;
constexpr DU du;
constexpr DI di;
constexpr DH dh;
constexpr DB4 db;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D{}));
constexpr int kUnit = 2 * kLanes;
static_assert(kChunk % (2 * kUnit) == 0 && 32 % kUnit == 0);

struct Two {
  V a, b;
};

HWY_INLINE V canonical(V v) {
  return hn::IfThenElse(hn::Eq(v, v), v, hn::Set(d, __builtin_nanf("")));
}

// To memory that is aligned where `stream` is set.
template <class DV, class T>
HWY_INLINE void put(hn::Vec<DV> v, DV dv, T* to, bool stream) {
  if constexpr (sizeof(T) * hn::MaxLanes(DV{}) >= 16)
    if (stream) return hn::Stream(v, dv, to);
  hn::StoreU(v, dv, to);
}

// ---- elements in memory ----

struct InF32 {
  using T = float;
  static constexpr bool kHalf = false, kByHalves = false;
  static HWY_INLINE Two load(const T* p) { return {hn::LoadU(d, p), hn::LoadU(d, p + kLanes)}; }
  static HWY_INLINE void store(Two v, T* p, bool stream) {
    put(v.a, d, p, stream);
    put(v.b, d, p + kLanes, stream);
  }
};
struct InF16 {
  using T = std::uint16_t;
  static constexpr bool kHalf = true, kByHalves = false;
  static HWY_INLINE V one(const T* p) {
    return hn::PromoteTo(d, hn::LoadU(DF16{}, reinterpret_cast<const hwy::float16_t*>(p)));
  }
  static HWY_INLINE V in_order(const T* p) { return one(p); }
  static HWY_INLINE Two load(const T* p) { return {one(p), one(p + kLanes)}; }
  static HWY_INLINE void store(Two v, T* p, bool stream) {
    put(hn::BitCast(DH1{}, hn::DemoteTo(DF16{}, v.a)), DH1{}, p, stream);
    put(hn::BitCast(DH1{}, hn::DemoteTo(DF16{}, v.b)), DH1{}, p + kLanes, stream);
  }
  static HWY_INLINE hn::Vec<DH1> bits(V v) { return hn::BitCast(DH1{}, hn::DemoteTo(DF16{}, v)); }
  // Of kChunk gradients, whether every quotient by a scale is normal and finite.
  static HWY_INLINE bool quotients_are_normal(const T* p) {
    auto most = hn::Zero(dh);
    for (int k = 0; k < kChunk; k += kUnit)
      most = hn::Max(most, hn::And(hn::LoadU(dh, p + k), hn::Set(dh, 0x7fff)));
    return hn::AllTrue(dh, hn::Lt(most, hn::Set(dh, 0x7c00)));
  }
};
struct InBf16 {
  using T = std::uint16_t;
  static constexpr bool kHalf = true, kByHalves = true;
  static HWY_INLINE V in_order(const T* p) { return bf16_vectors::widened(hn::LoadU(DH1{}, p)); }
  static HWY_INLINE Two load(const T* p) {
    const VU w = hn::BitCast(du, hn::LoadU(dh, p));
    return {bf16_vectors::even(w), bf16_vectors::odd(w)};
  }
  static HWY_INLINE void store(Two v, T* p, bool stream) {
    put(hn::BitCast(dh, bf16_vectors::narrowed_pairs(v.a, v.b)), dh, p, stream);
  }
  static HWY_INLINE hn::Vec<DH1> bits(V v) { return bf16_vectors::narrowed(v); }
  static HWY_INLINE bool quotients_are_normal(const T* p) {
    constexpr std::uint16_t kLeast = (127 - 40) << 7, kMost = (127 + 60) << 7;
    auto most = hn::Zero(dh), least = hn::Set(dh, 0xffff);
    for (int k = 0; k < kChunk; k += kUnit) {
      const auto a = hn::And(hn::LoadU(dh, p + k), hn::Set(dh, 0x7fff));
      most = hn::Max(most, a);
      least = hn::Min(least, hn::Sub(a, hn::Set(dh, 1)));  // zero passes
    }
    return hn::AllFalse(
        dh, hn::Or(hn::Gt(most, hn::Set(dh, kMost)), hn::Lt(least, hn::Set(dh, kLeast - 1))));
  }
};

// Calls f with the element type that the dtype stands for.
template <class F>
HWY_INLINE void with_element(Dtype t, F f) {
  if (t == Dtype::f32) return f(InF32{});
  if (t == Dtype::f16) return f(InF16{});
  f(InBf16{});
}
// Rows of elements.
template <class T>
struct From {
  const std::byte* base;
  std::int64_t row, ahead;
  explicit HWY_INLINE From(const Source& s)
      : base(static_cast<const std::byte*>(s.data)), row(s.row), ahead(s.ahead) {}
  HWY_INLINE const T* at(int r, int i) const {
    return reinterpret_cast<const T*>(base + r * row) + i;
  }
  HWY_INLINE void fetch(int r, int i) const { prefetch_ahead(at(r, i), ahead); }
};
template <class T>
struct To {
  std::byte* base;
  std::int64_t row;
  bool stream;
  explicit HWY_INLINE To(const Sink& s)
      : base(static_cast<std::byte*>(s.data)), row(s.row), stream(s.stream) {}
  HWY_INLINE T* at(int r, int i) const { return reinterpret_cast<T*>(base + r * row) + i; }
};

// ---- groups ----

// Reads a group's value for a vector: its own entries, or one entry for all lanes.
template <bool kEach>
struct Read {
  int e;
  HWY_INLINE V operator()(const float* a) const {
    if constexpr (kEach) return hn::LoadU(d, a + e);
    return hn::Set(d, a[e]);
  }
};

// Calls unit(row, i, group of the first vector, group of the second, group number) for every unit
// of a part; make(groups, Read) gives what the loop needs of a group; ahead(row, i) is called once
// per kChunk elements. The groups are copied: for all the compiler knows, a store of bytes might
// change what a reference leads to.
template <class Make, class Ahead, class Unit>
HWY_INLINE void for_units(const PortionGroups<float>& groups, RowPart part, Make make, Ahead ahead,
                          Unit unit) {
  const PortionGroups<float> g = groups;
  for (int r = 0; r < part.rows; ++r) {
    if (g.layout == GroupLayout::one) {
      const int e = r * g.row_step;
      const auto one = make(g, Read<false>{e});
      for (int c = part.begin; c < part.end; c += kChunk) {
        ahead(r, c);
        for (int i = c; i < c + kChunk; i += kUnit) unit(r, i, one, one, e);
      }
    } else if (g.layout == GroupLayout::runs && (1 << g.run_shift) >= kChunk) {
      for (int c = part.begin; c < part.end; c += kChunk) {
        ahead(r, c);
        const int e = c >> g.run_shift;
        const auto run = make(g, Read<false>{e});
        for (int i = c; i < c + kChunk; i += kUnit) unit(r, i, run, run, e);
      }
    } else if (g.layout == GroupLayout::runs) {
      for (int c = part.begin; c < part.end; c += kChunk) {
        ahead(r, c);
        for (int i = c; i < c + kChunk; i += kUnit) {
          const int e = i >> g.run_shift;
          const auto run = make(g, Read<false>{e});
          unit(r, i, run, run, e);
        }
      }
    } else {
      for (int c = part.begin; c < part.end; c += kChunk) {
        ahead(r, c);
        for (int i = c; i < c + kChunk; i += kUnit)
          unit(r, i, make(g, Read<true>{i}), make(g, Read<true>{i + kLanes}), -1);
      }
    }
  }
}

}  // namespace
#endif

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
