// Nearest sampling: elements are copied bit for bit, whatever their dtype and strides.
#pragma once

#include "planck/ops/grid_sample/cpu/points.h"

namespace planck {

Result<void> grid_sample_nearest_cpu(const Stream& stream, const GridSampleProblem& p,
                                     const Operands& operands);

}  // namespace planck
