#include "tools/planck/checkpoint/units/code_packer.h"

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/planck/checkpoint/units/code_packer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void pack_bytes(const std::uint8_t* in, std::int64_t count, std::uint8_t offset,
                std::uint8_t* out) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto more = hn::Set(d, offset);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, in + i), more), d, out + i);
  for (; i < count; ++i) out[i] = static_cast<std::uint8_t>(in[i] + offset);
}

// Pairs of codes are numbers of 16 bits, the first in the lower half: what is wanted is the low
// nibbles of both halves, side by side. The offset is half the range, so adding it flips a bit.
void pack_nibbles(const std::uint8_t* in, std::int64_t count, std::uint8_t offset,
                  std::uint8_t* out) {
  std::int64_t pair = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<std::uint16_t> d;
  const hn::Repartition<std::uint8_t, decltype(d)> bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto flipped = hn::Set(bytes, offset);
  const auto low = hn::Set(d, 0x000f), high = hn::Set(d, 0x00f0);
  const auto together = [&](const std::uint8_t* from) HWY_ATTR {
    const auto both = hn::BitCast(d, hn::Xor(hn::LoadU(bytes, from), flipped));
    return hn::Or(hn::And(both, low), hn::And(hn::ShiftRight<4>(both), high));
  };
  for (; pair + 2 * lanes <= count / 2; pair += 2 * lanes) {
    const auto first = together(in + 2 * pair), second = together(in + 2 * (pair + lanes));
    hn::StoreU(hn::ConcatEven(bytes, hn::BitCast(bytes, second), hn::BitCast(bytes, first)), bytes,
               out + pair);
  }
#endif
  const auto nibble = [&](std::int64_t i) { return (in[i] ^ offset) & 15; };
  for (; pair < count / 2; ++pair)
    out[pair] = static_cast<std::uint8_t>(nibble(2 * pair) | nibble(2 * pair + 1) << 4);
  if (count % 2 != 0) out[pair] = static_cast<std::uint8_t>(nibble(count - 1));
}

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {
namespace {

HWY_EXPORT(pack_bytes);
HWY_EXPORT(pack_nibbles);

}  // namespace

void cli::pack_bytes(const std::byte* codes, std::int64_t count, CodeBytes how, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(pack_bytes)
  (reinterpret_cast<const std::uint8_t*>(codes), count, how == CodeBytes::offset ? 128 : 0,
   reinterpret_cast<std::uint8_t*>(out));
}
void cli::pack_nibbles(const std::byte* codes, std::int64_t count, CodeBytes how, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(pack_nibbles)
  (reinterpret_cast<const std::uint8_t*>(codes), count, how == CodeBytes::offset ? 8 : 0,
   reinterpret_cast<std::uint8_t*>(out));
}

}  // namespace planck
#endif
