// Host arithmetic of schedules: compiled here, without contraction, so that programs with other
// flags train to the same bits.
#include "planck/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "planck/core/refuse.h"
#include "planck/math/pow.h"
#include "planck/math/trig.h"
#include "planck/nn/state.h"

namespace planck::optim {

namespace {

constexpr double kPi = 3.14159265358979323846;

double share(std::int64_t step, std::int64_t steps) {
  return static_cast<double>(step) / static_cast<double>(steps);
}
// From a to b along half a cosine; at is in [0, 1].
double along_cosine(double a, double b, double at) {
  return b + (a - b) * 0.5 * (1 + math::cos(kPi * at));
}

}  // namespace

double warm_up(std::int64_t step, std::int64_t steps) {
  if (steps <= 0 || step + 1 >= steps) return 1;
  return share(step + 1, steps);
}
double cosine(std::int64_t step, std::int64_t steps, double lowest) {
  if (steps <= 1) return lowest;
  const double at = share(step, steps - 1);
  return lowest + (1 - lowest) * 0.5 * (1 + math::cos(kPi * std::clamp(at, 0.0, 1.0)));
}
double steps_down(std::int64_t step, std::int64_t every, double factor) {
  double f = 1;
  for (std::int64_t s = every; every > 0 && s <= step; s += every) f *= factor;
  return f;
}
double linear(std::int64_t step, std::int64_t steps, double first, double last) {
  if (steps <= 0 || step >= steps) return last;
  return first + (last - first) * share(step, steps);
}
double exponential(std::int64_t step, double factor) {
  return math::pow(factor, static_cast<double>(step));
}
double polynomial(std::int64_t step, std::int64_t steps, double power) {
  if (steps <= 0 || step >= steps) return 0;
  return math::pow(1 - share(step, steps), power);
}
double one_cycle(std::int64_t step, std::int64_t steps, const OneCycleOptions& o) {
  if (steps <= 1) return o.last;
  const double top = o.rising * static_cast<double>(steps) - 1,
               last = static_cast<double>(steps - 1);
  const double at = std::clamp(static_cast<double>(step), 0.0, last);
  if (at < top) return along_cosine(o.first, 1, at / top);
  if (at == top) return 1;  // which may be step 0
  return along_cosine(1, o.last, (at - top) / (last - top));
}
double sequential(std::int64_t step, std::initializer_list<SchedulePart> parts) {
  if (parts.size() == 0) refuse("sequential: there is no schedule for step {}", {step});
  const SchedulePart* part = parts.begin();
  for (; part + 1 != parts.end() && step >= part->steps; ++part) step -= part->steps;
  return part->schedule(step);
}

double Plateau::observe(double loss) {
  if (loss < best_ * (1 - options.threshold)) {
    best_ = loss;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (resting_ > 0) {
    --resting_;
    bad_ = 0;
  }
  if (bad_ > options.patience) {
    factor_ = std::max(factor_ * options.factor, options.lowest);
    resting_ = options.cooldown;
    bad_ = 0;
  }
  return factor_;
}
nn::StateDict Plateau::state() const {
  const double numbers[] = {factor_, best_};
  const std::int64_t counts[] = {bad_, resting_};
  return {{"numbers", nn::entry_of(numbers)}, {"counts", nn::entry_of(counts)}};
}
void Plateau::load_state(const nn::StateDict& state) {
  const auto numbers = nn::find_numbers(state, "numbers", 2);
  const auto counts = nn::find_integers(state, "counts", 2);
  factor_ = numbers[0];
  best_ = numbers[1];
  bad_ = counts[0];
  resting_ = counts[1];
}

}  // namespace planck::optim
