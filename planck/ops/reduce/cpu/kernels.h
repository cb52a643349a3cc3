// The CPU kernels of the reduce family. Each serves every dtype and stride pattern of its ops.
#pragma once

#include "planck/ops/reduce/reduce.problem.h"

namespace planck {

Result<void> reduce_cpu(const Stream&, Workspace, const ReduceProblem&, const Operands&);
std::size_t reduce_cpu_workspace(const ReduceProblem&);

// argmax and argmin
Result<void> find_cpu(const Stream&, Workspace, const ReduceProblem&, const Operands&);
std::size_t find_cpu_workspace(const ReduceProblem&);

Result<void> cumsum_cpu(const Stream&, Workspace, const ReduceProblem&, const Operands&);
std::size_t cumsum_cpu_workspace(const ReduceProblem&);

// cummax and cummin
Result<void> running_extreme_cpu(const Stream&, Workspace, const ReduceProblem&, const Operands&);

}  // namespace planck
