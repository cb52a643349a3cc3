#include "tools/planck/checkpoint/units/block_encoder.h"

#include <algorithm>
#include <cstring>

#include "planck/io/gguf/encode_blocks.h"
#include "planck/loops/cpu/targets.h"
#include "tools/planck/checkpoint/units/block_fit.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/planck/checkpoint/units/block_encoder.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// One block after the other, by its definition.
void encode_plainly(const TensorEncoding& encoding, const float* x, std::int64_t blocks,
                    std::byte* out, float* restored) {
  find_block_encoder(encoding)(x, blocks, out);
  encoding.decode(out, blocks, restored);
}

#if HWY_TARGET == HWY_SCALAR
void encode_by_vectors(const TensorEncoding& encoding, const float* x, std::int64_t blocks,
                       std::byte* out, float* restored) {
  encode_plainly(encoding, x, blocks, out, restored);
}
#else

constexpr int kBlock = 32, kTogether = 32;
constexpr float kMostHalf = 65504.0f, kWhole = 0x1.8p23f;

// nearest: y = d q, from the largest magnitude; centred: y = d (q − zero), where the value of
// largest magnitude is d · −zero; least: y = d q + m, from the range.
enum class Kind : std::uint8_t { nearest, centred, least };
template <Kind kKind, int kSteps, bool kFive>
struct Simple {
  static constexpr Kind kind = kKind;
  static constexpr int steps = kSteps;  // nearest: 127, centred: zero, least: the largest code
  static constexpr bool five_bits = kFive;
  static constexpr int scale_bytes = kKind == Kind::least ? 4 : 2;
  static constexpr int bytes = scale_bytes + (kKind == Kind::nearest ? 32 : kFive ? 20 : 16);
};

// Of each block: y = s q + m (s (q − zero)), the codes by `inverse`; or it is left to the plain
// encoder.
struct BlockScales {
  alignas(64) float lo[kTogether], hi[kTogether], d[kTogether], inverse[kTogether];
  alignas(64) float s[kTogether], m[kTogether];
  alignas(64) std::uint16_t d_half[kTogether], m_half[kTogether];
  bool plain[kTogether];

  void halves(const float* from, std::uint16_t* bits, float* back) {
    alignas(64) float kept[kTogether];
    for (int b = 0; b < kTogether; ++b) {
      const float v = from[b] < -kMostHalf ? -kMostHalf : from[b];
      kept[b] = v > kMostHalf ? kMostHalf : v;
    }
    narrow_f16(kept, kTogether, bits);
    widen_f16(bits, kTogether, back, 0);
  }
};

using Lanes32 = hn::CappedTag<float, 16>;

template <class F>
HWY_INLINE void find_ranges(const float* HWY_RESTRICT x, int blocks, BlockScales& of) {
  const Lanes32 d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int b = 0; b < blocks; ++b, x += kBlock) {
    auto lo = hn::LoadU(d, x), hi = lo;
    if constexpr (F::kind == Kind::nearest) hi = hn::Abs(hi);
    auto finite = hn::Eq(hn::Sub(lo, lo), hn::Zero(d));
    for (int i = lanes; i < kBlock; i += lanes) {
      const auto v = hn::LoadU(d, x + i);
      finite = hn::And(finite, hn::Eq(hn::Sub(v, v), hn::Zero(d)));
      if constexpr (F::kind == Kind::nearest) {
        hi = hn::Max(hi, hn::Abs(v));
      } else {
        lo = hn::Min(lo, v);
        hi = hn::Max(hi, v);
      }
    }
    of.plain[b] = !hn::AllTrue(d, finite);
    of.hi[b] = of.plain[b] ? 1 : hn::GetLane(hn::MaxOfLanes(d, hi));
    if constexpr (F::kind != Kind::nearest)
      of.lo[b] = of.plain[b] ? -1 : hn::GetLane(hn::MinOfLanes(d, lo));
  }
}

// As the plain encoder has it. What it decides by the order of elements, or by the sign of a zero,
// is left to it.
template <class F>
HWY_INLINE void find_scales(int blocks, BlockScales& of) {
  for (int b = blocks; b < kTogether; ++b) of.lo[b] = -1, of.hi[b] = 1;
  for (int b = 0; b < kTogether; ++b) {
    if constexpr (F::kind == Kind::nearest)
      of.d[b] = of.hi[b] / F::steps;
    else if constexpr (F::kind == Kind::centred)
      of.d[b] = (of.hi[b] > -of.lo[b] ? of.hi[b] : of.lo[b]) / -F::steps;
    else
      of.d[b] = (of.hi[b] - of.lo[b]) / F::steps;
  }
  for (int b = 0; b < kTogether; ++b) of.inverse[b] = 1 / of.d[b];
  for (int b = 0; b < blocks; ++b) {
    // d = 0 has no inverse, a tiny one an infinite one, and d itself may be infinite.
    of.plain[b] |= !(of.inverse[b] - of.inverse[b] == 0) || of.inverse[b] == 0;
    if constexpr (F::kind == Kind::centred) of.plain[b] |= of.hi[b] == -of.lo[b];
    if constexpr (F::kind == Kind::least) of.plain[b] |= of.lo[b] == 0;
  }
  of.halves(of.d, of.d_half, of.s);
  if constexpr (F::kind == Kind::least) of.halves(of.lo, of.m_half, of.m);
}

template <class F>
HWY_INLINE void encode_block(const float* HWY_RESTRICT x, const BlockScales& of, int b,
                             std::uint8_t* HWY_RESTRICT p, float* HWY_RESTRICT y) {
  const Lanes32 d;
  const hn::Rebind<std::uint32_t, Lanes32> bits;
  const hn::Rebind<std::uint8_t, Lanes32> bytes;
  const hn::FixedTag<std::uint8_t, 16> sixteen;
  const int lanes = static_cast<int>(hn::Lanes(d));
  alignas(64) std::uint8_t q[kBlock];
  const auto inverse = hn::Set(d, of.inverse[b]), s = hn::Set(d, of.s[b]);
  for (int i = 0; i < kBlock; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    auto code = hn::Zero(d);
    if constexpr (F::kind == Kind::nearest) {  // half away from zero
      const auto at = hn::Mul(v, inverse), size = hn::Abs(at), whole = hn::Floor(size);
      const auto up = hn::Ge(hn::Sub(size, whole), hn::Set(d, 0.5f));
      code = hn::CopySign(hn::Add(whole, hn::IfThenElseZero(up, hn::Set(d, 1.0f))), at);
    } else if constexpr (F::kind == Kind::centred) {
      const auto at = hn::Add(hn::Mul(v, inverse), hn::Set(d, F::steps + 0.5f));
      code = hn::Min(hn::Floor(at), hn::Set(d, 2.0f * F::steps - 1));
      hn::StoreU(hn::Mul(s, hn::Sub(code, hn::Set(d, static_cast<float>(F::steps)))), d, y + i);
    } else {
      const auto m = hn::Set(d, of.m[b]), least = hn::Set(d, of.lo[b]);
      const auto at = hn::Add(hn::Mul(hn::Sub(v, least), inverse), hn::Set(d, 0.5f));
      code = hn::Min(hn::Floor(at), hn::Set(d, static_cast<float>(F::steps)));
      hn::StoreU(hn::Add(hn::Mul(s, code), m), d, y + i);
    }
    // An integer's low bits, as a sum that leaves none for a fraction.
    const auto sum = hn::Add(code, hn::Set(d, kWhole));
    const auto low = hn::BitCast(bits, sum);
    hn::StoreU(hn::TruncateTo(bytes, low), bytes, q + i);
    if constexpr (F::kind == Kind::nearest)  // without a sign of zero
      hn::StoreU(hn::Mul(hn::Sub(sum, hn::Set(d, kWhole)), s), d, y + i);
  }
  std::memcpy(p, &of.d_half[b], 2);
  if constexpr (F::kind == Kind::least) std::memcpy(p + 2, &of.m_half[b], 2);
  p += F::scale_bytes;
  if constexpr (F::kind == Kind::nearest) {
    std::memcpy(p, q, kBlock);
    return;
  }
  const auto low = hn::Load(sixteen, q), high = hn::Load(sixteen, q + 16);
  if constexpr (F::five_bits) {
    const auto fifth = hn::Set(sixteen, 16);
    hn::StoreMaskBits(sixteen, hn::TestBit(low, fifth), p);
    hn::StoreMaskBits(sixteen, hn::TestBit(high, fifth), p + 2);
    p += 4;
  }
  hn::StoreU(hn::Or(hn::And(low, hn::Set(sixteen, 15)), hn::ShiftLeft<4>(high)), sixteen, p);
}

template <class F>
void encode_simple(const TensorEncoding& encoding, const float* x, std::int64_t blocks,
                   std::byte* out, float* restored) {
  BlockScales of;
  for (std::int64_t first = 0; first < blocks; first += kTogether) {
    const int n = static_cast<int>(std::min<std::int64_t>(kTogether, blocks - first));
    find_ranges<F>(x, n, of);
    find_scales<F>(n, of);
    for (int b = 0; b < n; ++b, x += kBlock, out += F::bytes, restored += kBlock) {
      if (of.plain[b]) {
        encode_plainly(encoding, x, 1, out, restored);
        continue;
      }
      encode_block<F>(x, of, b, reinterpret_cast<std::uint8_t*>(out), restored);
    }
  }
}

// Q4_K and Q6_K.
template <auto kFit, int kBytes>
void encode_fitted(const TensorEncoding& encoding, const float* x, std::int64_t blocks,
                   std::byte* out, float* restored) {
  for (std::int64_t b = 0; b < blocks; ++b)
    if (!kFit(x + 256 * b, out + kBytes * b))
      find_block_encoder(encoding)(x + 256 * b, 1, out + kBytes * b);
  encoding.decode(out, blocks, restored);
}

void encode_by_vectors(const TensorEncoding& encoding, const float* x, std::int64_t blocks,
                       std::byte* out, float* restored) {
  constexpr struct {
    std::string_view text;
    decltype(&encode_plainly) encode;
  } kEncoders[] = {{"Q8_0", encode_simple<Simple<Kind::nearest, 127, false> >},
                   {"Q4_0", encode_simple<Simple<Kind::centred, 8, false> >},
                   {"Q5_0", encode_simple<Simple<Kind::centred, 16, true> >},
                   {"Q4_1", encode_simple<Simple<Kind::least, 15, false> >},
                   {"Q5_1", encode_simple<Simple<Kind::least, 31, true> >},
                   {"Q4_K", encode_fitted<cli::fit_q4_k_by_vectors, 144>},
                   {"Q6_K", encode_fitted<cli::fit_q6_k_by_vectors, 210>}};
  for (const auto& e : kEncoders)
    if (e.text == encoding.text) return e.encode(encoding, x, blocks, out, restored);
  encode_plainly(encoding, x, blocks, out, restored);
}
#endif

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {
namespace {

HWY_EXPORT(encode_by_vectors);

void encode_by_vectors(const TensorEncoding& encoding, const float* x, std::int64_t blocks,
                       std::byte* out, float* restored) {
  HWY_DYNAMIC_DISPATCH(encode_by_vectors)(encoding, x, blocks, out, restored);
}

}  // namespace

void cli::encode_blocks(const TensorEncoding& encoding, const float* x, std::int64_t blocks,
                        std::byte* out, float* restored) {
  encode_by_vectors(encoding, x, blocks, out, restored);
}

}  // namespace planck
#endif
