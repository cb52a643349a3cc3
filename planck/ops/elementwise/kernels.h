// The kernels of the elementwise family. Operands have been checked against the problem.
#pragma once

#include "planck/ops/elementwise/elementwise.problem.h"

namespace planck {

Result<void> elementwise_cpu_run(const Stream&, Workspace, const ElementwiseProblem&,
                                 const Operands&);
Result<void> elementwise_cuda_run(const Stream&, Workspace, const ElementwiseProblem&,
                                  const Operands&);

// The bits of the problem's first scalar in its dtype: what fill and mask_fill write.
std::uint64_t scalar_bits(const ElementwiseProblem& p);

}  // namespace planck
