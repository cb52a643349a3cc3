// Host arithmetic of optimizers and schedules: compiled here, without contraction, so that programs
// with other flags train to the same bits.
#include <algorithm>
#include <cmath>

#include "planck/math/trig.h"
#include "planck/optim/adam.h"
#include "planck/optim/schedule.h"

namespace planck::optim {

AdamScalars adam_scalars(const AdamOptions& o, double power1, double power2) {
  return {o.rate / (1 - power1), 1 / std::sqrt(1 - power2), 1 - o.rate * o.weight_decay};
}

double warm_up(std::int64_t step, std::int64_t steps) {
  if (steps <= 0 || step + 1 >= steps) return 1;
  return static_cast<double>(step + 1) / static_cast<double>(steps);
}
double cosine(std::int64_t step, std::int64_t steps, double lowest) {
  constexpr double kPi = 3.14159265358979323846;
  if (steps <= 1) return lowest;
  const double at = static_cast<double>(step) / static_cast<double>(steps - 1);
  return lowest + (1 - lowest) * 0.5 * (1 + math::cos(kPi * std::clamp(at, 0.0, 1.0)));
}
double steps_down(std::int64_t step, std::int64_t every, double factor) {
  double f = 1;
  for (std::int64_t s = every; every > 0 && s <= step; s += every) f *= factor;
  return f;
}

}  // namespace planck::optim
