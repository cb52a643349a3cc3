// Muon's direction: the mean of gradients with its singular values made about 1.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim::detail {

struct Orthogonal {
  StoredView mean;       // moved on: what slot 0 becomes, in its dtype
  StoredView direction;  // in f32 or f64
};
Orthogonal orthogonal_direction(const StepItem& item, const std::optional<StoredView>& factor);
// What the rate of a matrix [rows, columns] is times.
double matrix_rate(const StepItem& item);

}  // namespace planck::optim::detail
