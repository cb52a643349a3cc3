// Scales of groups that no unit holds as a whole: one per tensor, channels of an inner axis, rows
// longer than a unit. The data are gone through once for the ranges and, for mse, once more for the
// errors of every candidate; both are gathered in a way that has no order. What fits into
// KeptFloats is read from the file once, anything larger each time.
#pragma once

#include "tools/planck/checkpoint/units/unit_pool.h"

namespace planck::cli {

// Of the channels that these units have: fills `shared` and makes the job use it. Memory is 16
// bytes for each channel, 230 while mse searches.
[[nodiscard]] Result<void> find_shared_scales(UnitPool& pool, UnitJob& job,
                                              const std::vector<Unit>& units, SharedScales& shared);

}  // namespace planck::cli
