// Learning rates as functions of the step, from 0 on, each a factor of the highest rate. They
// compose: warm_up(step, 100) * cosine(step, 1000). Where PyTorch has the schedule, it has these
// values; arithmetic is the library's own, so that they have the same bits everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>

#include "planck/nn/state_dict.h"

namespace planck::optim {

// From near 0 to 1 over the first steps, then 1.
double warm_up(std::int64_t step, std::int64_t steps);
// From 1 at step 0 down to `lowest` at the last of `steps`, along half a cosine.
double cosine(std::int64_t step, std::int64_t steps, double lowest = 0);
// Times `factor` every `every` steps.
double steps_down(std::int64_t step, std::int64_t every, double factor = 0.1);
// From `first` at step 0 to `last` after `steps`, along a line; then `last`.
double linear(std::int64_t step, std::int64_t steps, double first = 1.0 / 3, double last = 1);
// Times `factor` every step.
double exponential(std::int64_t step, double factor);
// (1 − step / steps)^power, then 0.
double polynomial(std::int64_t step, std::int64_t steps, double power = 1);

struct OneCycleOptions {
  double rising = 0.3;           // share of the steps
  double first = 1.0 / 25;       // at step 0
  double last = 1.0 / 25 / 1e4;  // at the last step
};
// Up to 1 along half a cosine, then down. The top is at step rising * steps − 1; where that is step
// 0, for which PyTorch divides by zero, the rate is the highest.
double one_cycle(std::int64_t step, std::int64_t steps, const OneCycleOptions& options = {});

// A schedule of its own steps, from 0 on.
using Schedule = std::function<double(std::int64_t)>;
// One after the other: each is a schedule and how many steps it lasts; the last one goes on.
struct SchedulePart {
  Schedule schedule;
  std::int64_t steps;
};
// The rate of a step of all of them.
double sequential(std::int64_t step, std::initializer_list<SchedulePart> parts);

struct PlateauOptions {
  double factor = 0.1;         // of the rate, where nothing got better
  std::int64_t patience = 10;  // values in a row that may be no better
  double threshold = 1e-4;     // better: below (1 − threshold) times the best
  std::int64_t cooldown = 0;   // values that do not count after the rate fell
  double lowest = 0;
};
// Rates that fall where a loss stays: observe() is given the loss of each epoch.
class Plateau {
 public:
  explicit Plateau(const PlateauOptions& o = {}) : options(o) {}

  PlateauOptions options;
  // The factor from now on. A loss that is not a number is no better.
  double observe(double loss);
  double factor() const { return factor_; }
  nn::StateDict state() const;
  void load_state(const nn::StateDict& state);

 private:
  double factor_ = 1, best_ = std::numeric_limits<double>::infinity();
  std::int64_t bad_ = 0, resting_ = 0;
};

}  // namespace planck::optim
