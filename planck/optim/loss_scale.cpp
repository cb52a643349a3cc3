#include "planck/optim/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "planck/nn/state.h"

namespace planck::optim {

LossScale::LossScale(const LossScaleOptions& o) : options_(o), scale_(o.first) {
  if (!(o.first >= o.lowest && o.first <= o.highest && o.lowest > 0))
    refuse("loss_scale: it starts at {}, it must lie in [{}, {}] and be positive",
           {o.first, o.lowest, o.highest});
  if (!(o.growth >= 1 && o.backoff > 0 && o.backoff <= 1 && o.interval > 0))
    refuse("loss_scale: it grows by {} every {} steps and falls by {}",
           {o.growth, o.interval, o.backoff});
}

bool LossScale::adapt(double norm) {
  if (!std::isfinite(norm)) {
    scale_ = std::max(scale_ * options_.backoff, options_.lowest);
    good_ = 0;
    ++skipped_;
    return false;
  }
  if (++good_ >= options_.interval) {
    scale_ = std::min(scale_ * options_.growth, options_.highest);
    good_ = 0;
  }
  return true;
}

nn::StateDict LossScale::state() const {
  const double scale[] = {scale_};
  const std::int64_t counts[] = {good_, skipped_};
  return {{"scale", nn::entry_of(scale)}, {"counts", nn::entry_of(counts)}};
}
void LossScale::load_state(const nn::StateDict& state) {
  const auto scale = nn::find_numbers(state, "scale", 1);
  const auto counts = nn::find_integers(state, "counts", 2);
  scale_ = scale[0];
  good_ = counts[0];
  skipped_ = counts[1];
}

}  // namespace planck::optim
