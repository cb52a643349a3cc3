// The CPU kernel of the softmax family. Operands have been checked against the problem.
#pragma once

#include "planck/ops/softmax/softmax.problem.h"

namespace planck {

Result<void> softmax_cpu(const Stream&, Workspace, const SoftmaxProblem&, const Operands&);

}  // namespace planck
