// CPU loops of a step, dispatched by instruction set.
#pragma once

#include "planck/optim/step/rule.h"

namespace planck::optim {

// Elements [begin, begin + n) of a row.
void step_range(const StepRow& row, std::int64_t begin, std::int64_t n);

}  // namespace planck::optim
