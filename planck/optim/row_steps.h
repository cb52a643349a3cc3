// Steps of single rows of a table, where the table lies.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim::detail {

// Of f32 and f64 tables, sgd and adagrad have the bits of the whole step.
void step_rows(StepItem& item, Kept& kept, const double* factor);

}  // namespace planck::optim::detail
