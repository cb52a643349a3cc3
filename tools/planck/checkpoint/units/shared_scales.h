// Scales of groups that no unit holds as a whole: one per tensor, channels of an inner axis, rows
// longer than a unit. The data are read once for the ranges and, for mse, once more for the errors
// of every candidate; both are gathered in a way that has no order.
#pragma once

#include "tools/planck/checkpoint/units/unit_pool.h"

namespace planck::cli {

// Fills `shared` and makes the job use it.
[[nodiscard]] Result<void> find_shared_scales(UnitPool& pool, UnitJob& job,
                                              const std::vector<Unit>& units, SharedScales& shared);

}  // namespace planck::cli
