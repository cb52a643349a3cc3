// Values of quantized integers, computed, or looked up where a group of 4-bit integers has 16 of
// them: inside a per-target namespace, like vectors-inl.h.
//
// s4 to bf16, one scale per row, two threads, share of the ceiling: computed 0.81, looked up 1.02.
#if defined(PLANCK_OPS_QUANTIZE_LOOKUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_OPS_QUANTIZE_LOOKUP_INL_H_
#undef PLANCK_OPS_QUANTIZE_LOOKUP_INL_H_
#else
#define PLANCK_OPS_QUANTIZE_LOOKUP_INL_H_
#endif

#include "planck/ops/quantize/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
namespace {

// 16 bits: s · (z + sign) is exact. f32: the origin is −(z + sign), and the sum is.
struct Line {
  V scale, origin;
};
constexpr auto make_line = [](const PortionGroups<float>& g, auto read) {
  return Line{read(g.v_scale), read(g.origin)};
};
template <class E>
HWY_INLINE V value_on(const Line& line, VU raw) {
  const V f = hn::ConvertTo(d, hn::BitCast(di, raw));
  return E::kHalf ? hn::MulAdd(f, line.scale, line.origin)
                  : hn::Mul(line.scale, hn::Add(f, line.origin));
}

// Four-bit integers of one group have 16 values, which are looked up: their low and high bytes.
struct Values {
  alignas(16) std::uint8_t low[16], high[16];
};
template <class E>
HWY_INLINE void make_values(const PortionGroups<float>& g, int e, std::uint32_t sign, Values& to) {
  const Line line = make_line(g, Read<false>{e});
  for (int k = 0; k < 16; k += kLanes) {
    const auto raw = hn::Xor(hn::Iota(du, static_cast<std::uint32_t>(k)), hn::Set(du, sign));
    const auto bits = E::bits(value_on<E>(line, raw));
    const hn::Rebind<std::uint8_t, DH1> d8;
    hn::StoreU(hn::TruncateTo(d8, bits), d8, to.low + k);
    hn::StoreU(hn::TruncateTo(d8, hn::ShiftRight<8>(bits)), d8, to.high + k);
  }
}

// 32 bytes at a time, whatever the widest vectors: lookups of 64 go through one port.
template <class E>
void look_up(const PortionGroups<float>& groups, RowPart part, const Source& q, const Sink& x) {
  const PortionGroups<float> g = groups;
  const auto sign = static_cast<std::uint32_t>(sign_of(q.dtype));
  const From<std::uint8_t> in(q);
  const To<std::uint16_t> out(x);
  const hn::CappedTag<std::uint8_t, 32> d8;
  const hn::Repartition<std::uint16_t, decltype(d8)> d16;
  const hn::Repartition<std::uint32_t, decltype(d8)> d32;
  alignas(32) static constexpr std::int32_t kPlaces[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto places = hn::SetTableIndices(d32, kPlaces);
  const bool runs = g.layout == GroupLayout::runs;
  for (int r = 0; r < part.rows; ++r) {
    Values values;
    int made = -1;
    auto low = hn::Zero(d8), high = low;
    for (int c = part.begin; c < part.end; c += kChunk) {
      const int e = runs ? c >> g.run_shift : r * g.row_step;
      if (e != made) {
        make_values<E>(g, made = e, sign, values);
        low = hn::LoadDup128(d8, values.low);
        high = hn::LoadDup128(d8, values.high);
      }
      const std::uint8_t* from = in.at(r, c / 2);
      __builtin_prefetch(from + in.ahead);
      // Arranged so that the bytes, spread within 16, come out in order.
      const auto pairs =
          hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(d32, hn::LoadU(d8, from)), places));
      const auto even = hn::And(pairs, hn::Set(d8, 15));
      const auto odd =
          hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, pairs))), hn::Set(d8, 15));
      const auto even_low = hn::TableLookupBytes(low, even);
      const auto even_high = hn::TableLookupBytes(high, even);
      const auto odd_low = hn::TableLookupBytes(low, odd);
      const auto odd_high = hn::TableLookupBytes(high, odd);
      std::uint16_t* to = out.at(r, c);
      const auto put_both = [&](auto evens, auto odds, std::uint16_t* at) HWY_ATTR {
        const auto a = hn::BitCast(d16, evens), b = hn::BitCast(d16, odds);
        put(hn::InterleaveLower(d16, a, b), d16, at, out.stream);
        put(hn::InterleaveUpper(d16, a, b), d16, at + 16, out.stream);
      };
      put_both(hn::InterleaveLower(d8, even_low, even_high),
               hn::InterleaveLower(d8, odd_low, odd_high), to);
      put_both(hn::InterleaveUpper(d8, even_low, even_high),
               hn::InterleaveUpper(d8, odd_low, odd_high), to + 32);
    }
  }
}

}  // namespace
#endif

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
