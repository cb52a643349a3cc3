// Learning rates as functions of the step, each a factor of the highest rate. They compose:
// warm_up(step, 100) * cosine(step, 1000).
#pragma once

#include <cstdint>

namespace planck::optim {

// From near 0 to 1 over the first steps, then 1.
double warm_up(std::int64_t step, std::int64_t steps);
// From 1 at step 0 down to `lowest` at the last of `steps`, along half a cosine.
double cosine(std::int64_t step, std::int64_t steps, double lowest = 0);
// Times `factor` every `every` steps.
double steps_down(std::int64_t step, std::int64_t every, double factor = 0.1);

}  // namespace planck::optim
