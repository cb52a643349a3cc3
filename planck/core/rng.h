// A place in a stream of random numbers. What is drawn is a function of seed and position alone.
#pragma once

#include <cstdint>

#include "planck/core/replay.h"

namespace planck {

struct Rng {
  std::uint64_t seed = 0, offset = 0;
  // Where `count` numbers are drawn; they are drawn once. The second run of a segment
  // (autodiff/checkpoint.h) is given the place of the first, and nothing moves.
  std::uint64_t take(std::int64_t count) {
    if (auto* run = Replay::Run::innermost()) return run->take(*this, count);
    return advance(count);
  }
  std::uint64_t advance(std::int64_t count) {
    const std::uint64_t first = offset;
    offset += static_cast<std::uint64_t>(count);
    ++draws_of_this_thread;
    return first;
  }
  // From any generator, so far: whether something drew.
  static inline constinit thread_local std::uint64_t draws_of_this_thread = 0;
};

}  // namespace planck
