// The CPU kernel of the sort family. It serves every dtype and stride pattern; operands have been
// checked against the problem.
#pragma once

#include "planck/ops/sort/sort.problem.h"

namespace planck {

// cpu:radix
Result<void> sort_cpu(const Stream&, Workspace, const SortProblem&, const Operands&);
std::size_t sort_cpu_workspace(const SortProblem&);

}  // namespace planck
