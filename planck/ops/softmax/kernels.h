// The kernels of the softmax family.
#pragma once

#include "planck/ops/softmax/softmax.problem.h"

namespace planck {

Result<void> softmax_cpu(const Stream&, Workspace, const SoftmaxProblem&, const Operands&);
Result<void> softmax_cuda(const Stream&, Workspace, const SoftmaxProblem&, const Operands&);

}  // namespace planck
