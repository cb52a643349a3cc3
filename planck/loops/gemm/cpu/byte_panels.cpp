// Plain loops that the compiler vectorizes for each instruction set.
#include "planck/loops/gemm/cpu/byte_panels.h"

#include <algorithm>
#include <cstring>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/gemm/cpu/byte_panels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

using gemm::BytePanelOps;
using gemm::Side;

HWY_INLINE std::int32_t word_of(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
  return static_cast<std::int32_t>(
      static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b) << 8 |
      static_cast<std::uint32_t>(c) << 16 | static_cast<std::uint32_t>(d) << 24);
}

// One word of k of `n` rows; `left` of its four bytes are there.
void word_row(const Side& s, const std::uint8_t* HWY_RESTRICT from, int n, std::int64_t left,
              std::int32_t* HWY_RESTRICT to) {
  if (left >= 4 && s.along == 1) {
    const std::uint8_t *b = from + s.depth, *c = b + s.depth, *d = c + s.depth;
    for (int r = 0; r < n; ++r) to[r] = word_of(from[r], b[r], c[r], d[r]);
  } else if (left >= 4 && s.depth == 1) {
    for (int r = 0; r < n; ++r) std::memcpy(to + r, from + r * s.along, 4);
  } else {
    for (int r = 0; r < n; ++r) {
      const std::uint8_t* at = from + r * s.along;
      std::uint8_t bytes[4] = {};
      for (int i = 0; i < std::min<std::int64_t>(4, left); ++i) bytes[i] = at[i * s.depth];
      to[r] = word_of(bytes[0], bytes[1], bytes[2], bytes[3]);
    }
  }
}

void to_words(const Side& s, std::int64_t count, std::int64_t k, std::int64_t words, int width,
              std::uint8_t flip, std::int32_t* out) {
  const auto* from = static_cast<const std::uint8_t*>(s.data) + s.offset;
  const std::int32_t mask = word_of(flip, flip, flip, flip);
  for (std::int64_t i = 0; i < words; ++i, from += 4 * s.depth)
    for (std::int64_t first = 0; first < count; first += width) {
      std::int32_t* const to = out + first * words + i * width;
      const int n = static_cast<int>(std::min<std::int64_t>(width, count - first));
      if (4 * i < k)
        word_row(s, from + first * s.along, n, k - 4 * i, to);
      else
        std::fill(to, to + n, 0);
      std::fill(to + n, to + width, 0);
      if (flip != 0)
        for (int r = 0; r < width; ++r) to[r] ^= mask;
    }
}

void to_blocks(const Side& s, std::int64_t count, std::int64_t k, std::int8_t* out) {
  const auto* const from = static_cast<const std::int8_t*>(s.data) + s.offset;
  const std::int64_t blocks = (k + 63) / 64;
  for (std::int64_t first = 0; first < count; first += 16)
    for (std::int64_t block = 0; block < blocks; ++block, out += 1024) {
      const std::int64_t rows = std::min<std::int64_t>(16, count - first);
      const std::int64_t n = std::min<std::int64_t>(64, k - block * 64);
      const std::int8_t* const at = from + first * s.along + block * 64 * s.depth;
      if (rows < 16 || n < 64) std::memset(out, 0, 1024);
      if (s.depth == 1)
        for (std::int64_t r = 0; r < rows; ++r)
          std::memcpy(out + r * 64, at + r * s.along, static_cast<std::size_t>(n));
      else
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t r = 0; r < rows; ++r) out[r * 64 + i] = at[r * s.along + i * s.depth];
    }
}

void offsets(const std::int32_t* HWY_RESTRICT words, std::int64_t count,
             std::int32_t* HWY_RESTRICT out) {
  std::int32_t sums[32] = {};
  for (std::int64_t i = 0; i < count; ++i, words += 32)
    for (int j = 0; j < 32; ++j) {
      const auto w = static_cast<std::uint32_t>(words[j]);
      sums[j] += (static_cast<std::int32_t>(w << 24) >> 24) +
                 (static_cast<std::int32_t>(w << 16) >> 24) +
                 (static_cast<std::int32_t>(w << 8) >> 24) + (static_cast<std::int32_t>(w) >> 24);
    }
  for (int j = 0; j < 32; ++j) out[j] = -128 * sums[j];
}

constexpr BytePanelOps kOps = {to_words, to_blocks, offsets};

}  // namespace

const BytePanelOps* byte_panel_ops() { return &kOps; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(byte_panel_ops);

const gemm::BytePanelOps& gemm::byte_panel_ops() {
  static const BytePanelOps& ops = *HWY_DYNAMIC_DISPATCH(byte_panel_ops)();
  return ops;
}

}  // namespace planck
#endif
