// Muon's direction: the mean of gradients with its singular values made about 1.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim::detail {

// Moves the mean on, in the item's slot 0, and gives the direction, in f32 or f64.
StoredView orthogonal_direction(const StepItem& item, Kept& kept,
                                const std::optional<StoredView>& factor);
// What the rate of a matrix [rows, columns] is times.
double matrix_rate(const StepItem& item);

}  // namespace planck::optim::detail
