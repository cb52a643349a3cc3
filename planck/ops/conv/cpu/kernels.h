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

// cpu:integer_lanes, tensor_core; cpu:exact_amx, cpu:exact_vnni, cpu:exact_f64, exact. All three
// ops, any strides.
Result<void> conv_integer_lanes_cpu(const Stream&, Workspace, const ConvProblem&, const Operands&);
std::size_t conv_integer_lanes_cpu_workspace(const ConvProblem&);
std::string conv_exact_amx_refusal(const ConvProblem&);
Result<void> conv_exact_amx(const Stream&, Workspace, const ConvProblem&, const Operands&);
std::size_t conv_exact_amx_workspace(const ConvProblem&);
std::string conv_exact_vnni_refusal(const ConvProblem&);
Result<void> conv_exact_vnni(const Stream&, Workspace, const ConvProblem&, const Operands&);
std::size_t conv_exact_vnni_workspace(const ConvProblem&);
Result<void> conv_exact_f64(const Stream&, Workspace, const ConvProblem&, const Operands&);
std::size_t conv_exact_f64_workspace(const ConvProblem&);

}  // namespace planck
