// CPU loops of a step, dispatched by instruction set.
#pragma once

#include "planck/optim/step/rule.h"

namespace planck::optim {

// Elements [begin, begin + n) of a row.
void step_range(const StepRow& row, std::int64_t begin, std::int64_t n);

// The same of a sum of so many parts.
void sum_range(const SumRow& row, int parts, std::int64_t begin, std::int64_t n);

}  // namespace planck::optim
