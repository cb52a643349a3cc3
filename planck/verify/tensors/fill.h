// Values for test tensors: element i is a function of (fill, seed, stream, i) alone, on every
// machine.
#pragma once

#include <cstdint>
#include <string_view>

#include "planck/verify/tensors/host_tensor.h"

namespace planck::verify {

enum class Fill : std::uint8_t {
  zeros,
  ones,
  normal,   // bell-shaped around 0, standard deviation 1
  uniform,  // [−1, 1)
  // NaN of several payloads and signs, ±Inf, ±0, subnormal, huge, tiny, n + 1/2, any bit pattern.
  adversarial,
  rare,                // normal, one of 1,024 adversarial: sums of many are not all NaN
  wide,                // normal times a power of two among 48 (f16: 28), one of 64 subnormal
  cancelling,          // ± few values at three scales: sums whose large terms cancel
  scale,               // positive, log-uniform in [2^−10, 2^2)
  extreme_scale,       // as scale, with subnormal, huge, zero, negative, NaN and Inf among them
  integers,            // uniform in [low, high], the dtype's whole range where low > high
  zipf,                // integers in [low, high], low + k about as often as 1 / (k + 1)
  stray_integers,      // as integers, some of them outside of [low, high]: next to it, far away
  ascending,           // integers in [low, high], none below the one before
  extreme_zero_point,  // ends of int32, ±1, near ±2^20 and ±2^24, any pattern
};

std::string_view name(Fill fill);

struct FillRange {
  std::int64_t low = 0, high = -1;  // low > high: the dtype's whole range
};

// Element i comes from position i of PhiloxStream{seed, stream}.
void fill(HostTensor& tensor, Fill how, std::uint64_t seed, std::uint64_t stream,
          FillRange range = {});

}  // namespace planck::verify
