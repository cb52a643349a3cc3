// The CPU kernel of the norm family. Operands have been checked against the problem.
#pragma once

#include "planck/ops/norm/host/chunks.h"

namespace planck {

Result<void> norm_cpu(const Stream&, Workspace, const NormProblem&, const Operands&);
std::size_t norm_cpu_workspace(const NormProblem&);

// Rows of a chunk, where all gradients are computed in one pass.
inline constexpr std::int64_t kCpuFusedRows = 64;

}  // namespace planck
