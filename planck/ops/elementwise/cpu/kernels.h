// The CPU kernel of the elementwise family. Operands have been checked against the problem.
#pragma once

#include "planck/ops/elementwise/elementwise.problem.h"

namespace planck {

// cpu:simd
Result<void> elementwise_cpu_run(const Stream&, Workspace, const ElementwiseProblem&,
                                 const Operands&);

}  // namespace planck
