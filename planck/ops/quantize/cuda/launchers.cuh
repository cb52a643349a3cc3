// The launchers of the CUDA kernels, one translation unit each.
#pragma once

#include "planck/core/workspace.h"
#include "planck/ops/quantize/cuda/layout.cuh"

namespace planck::quantize_device {

// Each for all element dtypes of the problem.
Result<void> launch_quantize(const Stream&, const QuantProblem&, const ElementwiseCall&);
Result<void> launch_quantize_backward(const Stream&, const QuantProblem&, const ElementwiseCall&);
Result<void> launch_dequantize(const Stream&, const QuantProblem&, const ElementwiseCall&);
Result<void> launch_dequantize_backward(const Stream&, const QuantProblem&, const ElementwiseCall&);
Result<void> launch_fake_quantize(const Stream&, const QuantProblem&, const ElementwiseCall&);
Result<void> launch_fake_quantize_backward(const Stream&, const QuantProblem&,
                                           const ElementwiseCall&);
// With dscale, dzero_point or both.
Result<void> launch_learn(const Stream&, Workspace, const QuantProblem&, const Operands&);
// Stores scale and zero point and, if it returns true, q as well; else q is left to
// launch_quantize.
Result<bool> launch_dynamic(const Stream&, Workspace, const QuantProblem&, const Operands&);

}  // namespace planck::quantize_device
