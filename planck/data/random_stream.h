// Streams of random numbers for the uses that data have for them.
//
// A use names a stream of its own in each epoch: key and stream of a Philox generator are the four
// words of Philox(key = seed, counter = (epoch, use)). So shuffles and distortions of one seed
// share no numbers, and neither do two epochs.
#pragma once

#include "planck/math/philox.h"

namespace planck {

enum class RandomUse : std::uint64_t { shuffle = 1, distortion = 2 };

inline PhiloxStream random_stream(std::uint64_t seed, std::uint64_t epoch, RandomUse use) {
  const Philox4 w = PhiloxStream{seed, static_cast<std::uint64_t>(use)}.words(epoch);
  return {w.v[0] | std::uint64_t{w.v[1]} << 32, w.v[2] | std::uint64_t{w.v[3]} << 32};
}

}  // namespace planck
