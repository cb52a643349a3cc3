// The CPU kernel of the quantize family. It serves every op, granularity, dtype and stride pattern;
// operands have been checked against the problem.
#pragma once

#include "planck/ops/quantize/quantize.problem.h"

namespace planck {

Result<void> quantize_cpu(const Stream&, Workspace, const QuantProblem&, const Operands&);
std::size_t quantize_cpu_workspace(const QuantProblem&);

}  // namespace planck
