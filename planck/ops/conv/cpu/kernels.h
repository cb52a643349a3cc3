// The CPU kernels of the conv family. Operands have been checked against the problem.
#pragma once

#include "planck/ops/conv/conv.problem.h"

namespace planck {

// cpu:patches of conv2d and conv2d_input; any strides
Result<void> conv_cpu(const Stream&, Workspace, const ConvProblem&, const Operands&);
std::size_t conv_cpu_workspace(const ConvProblem&);

// cpu:patches of conv2d_weight
Result<void> conv_weight_cpu(const Stream&, Workspace, const ConvProblem&, const Operands&);
std::size_t conv_weight_cpu_workspace(const ConvProblem&);

}  // namespace planck
