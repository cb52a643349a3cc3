// Where a kernel draws random numbers: a stream of Philox, by value; in work that is recorded and
// run again (core/stream/recording.h), so far from where its generator is by then.
#pragma once

#include "planck/core/stream/recording.h"
#include "planck/math/philox.h"

namespace planck {

struct RandomPlace {
  PhiloxStream by_value;
  const std::uint64_t* now;  // seed and offset of the generator, on the device; or null
  std::uint64_t ahead;

  __device__ __forceinline__ PhiloxStream stream() const {
    if (now == nullptr) return by_value;
    return {now[0], now[1] + ahead};
  }
};

inline Result<RandomPlace> random_place(const Stream& stream, std::uint64_t seed,
                                        std::uint64_t offset) {
  Recording* recording = Recording::of(stream);
  if (recording == nullptr) return RandomPlace{{seed, offset}, nullptr, 0};
  const auto draw = recording->draw(seed, offset);
  if (!draw) return tl::unexpected(draw.error());
  return RandomPlace{{seed, offset}, draw->now, draw->ahead};
}

}  // namespace planck
