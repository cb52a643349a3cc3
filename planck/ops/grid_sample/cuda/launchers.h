// The backward launchers, one translation unit an element type.
#pragma once

#include "planck/ops/grid_sample/grid_sample.problem.h"

namespace planck::sample_device {

Result<void> backward_f32(const Stream&, Workspace, const GridSampleProblem&, const Operands&);
Result<void> backward_f64(const Stream&, Workspace, const GridSampleProblem&, const Operands&);
Result<void> backward_f16(const Stream&, Workspace, const GridSampleProblem&, const Operands&);
Result<void> backward_bf16(const Stream&, Workspace, const GridSampleProblem&, const Operands&);

}  // namespace planck::sample_device
