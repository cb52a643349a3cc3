// How a loss scale moves, on the host and on the device alike.
#pragma once

#include <cstdint>

#include "planck/core/macros.h"

namespace planck::optim {

struct LossScaleOptions {
  double first = 65536, growth = 2, backoff = 0.5;
  std::int64_t interval = 2000;  // good steps before the scale grows
  double lowest = 1, highest = 0x1p24;
};

struct LossScaleState {
  double scale = 1;
  std::int64_t good = 0, skipped = 0;
};

// After a step with gradients of this norm: whether it counts.
PLANCK_HD bool adapt_loss_scale(const LossScaleOptions& o, double norm, LossScaleState& s) {
  if (!(norm <= 0x1.fffffffffffffp1023)) {  // infinite or NaN
    const double less = s.scale * o.backoff;
    s.scale = less > o.lowest ? less : o.lowest;
    s.good = 0;
    ++s.skipped;
    return false;
  }
  if (++s.good >= o.interval) {
    const double more = s.scale * o.growth;
    s.scale = more < o.highest ? more : o.highest;
    s.good = 0;
  }
  return true;
}

}  // namespace planck::optim
