// Random numbers as a function of seed and position: Philox 4x32-10 (Salmon et al., SC 2011).
//
// Promise: the bits of Random123, cuRAND and PyTorch's generator for the same key and counter, on
// host and device. There is no state to share or to advance: position n of a stream is computed on
// its own, so any split of the work over threads gives the same numbers. Two streams
// of one seed never share a counter.
//
//   philox(counter, key)          four words of 32 bits
//   PhiloxStream{seed, stream}    words(n): key = seed, counter = (n, stream), low words first
//   uniform01(word)               f32 in [0, 1): the upper 24 bits times 2^-24; exact
#pragma once

#include <cstdint>

#include "planck/core/macros.h"

namespace planck {

struct Philox4 {
  std::uint32_t v[4];
};

PLANCK_HD Philox4 philox(Philox4 counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter.v[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter.v[2];
    counter = {
        {static_cast<std::uint32_t>(b >> 32) ^ counter.v[1] ^ key0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ counter.v[3] ^ key1, static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9u;  // the golden ratio
    key1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return counter;
}

struct PhiloxStream {
  std::uint64_t seed = 0, stream = 0;

  PLANCK_HD Philox4 words(std::uint64_t n) const {
    return philox({{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32),
                    static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
                  static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  }
};

PLANCK_HD float uniform01(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

}  // namespace planck
