// The CPU kernels of the quantize family, for every granularity and stride pattern. Operands have
// been checked against the problem.
#pragma once

#include "planck/ops/quantize/quantize.problem.h"

namespace planck {

// Elementwise kinds. simd: vector loops where groups are ordinary, else as plain; plain: loops that
// take every group.
std::string quantize_simd_cpu_refusal(const QuantProblem&);
Result<void> quantize_simd_cpu(const Stream&, Workspace, const QuantProblem&, const Operands&);
Result<void> quantize_plain_cpu(const Stream&, Workspace, const QuantProblem&, const Operands&);

// dynamic_quantize
Result<void> quantize_dynamic_cpu(const Stream&, Workspace, const QuantProblem&, const Operands&);
std::size_t quantize_dynamic_cpu_workspace(const QuantProblem&);

// fake_quantize_backward with dscale and dzero_point
Result<void> quantize_learned_cpu(const Stream&, Workspace, const QuantProblem&, const Operands&);
std::size_t quantize_learned_cpu_workspace(const QuantProblem&);

}  // namespace planck
