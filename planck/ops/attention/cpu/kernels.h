// The CPU kernels of the attention family. Operands have been checked against the problem.
#pragma once

#include "planck/ops/attention/attention.problem.h"

namespace planck {

// cpu:fma_chain and cpu:integer_lanes: which of both, the problem's math says.
Result<void> attention_cpu(const Stream&, Workspace, const AttentionProblem&, const Operands&);
std::size_t attention_cpu_workspace(const AttentionProblem&);

}  // namespace planck
