// "cuda:vector": every kind, granularity, dtype and stride pattern of the family on the GPU.
//
// Elementwise kinds are one launch (elementwise.cuh); sums and ranges over groups are in
// fake_quantize.learn.cu, dynamic_quantize.cu and dynamic_range.cu.
#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/quantize/cuda/kernels.h"
#include "planck/ops/quantize/cuda/launchers.cuh"

namespace planck {

namespace {

namespace qd = quantize_device;

Result<void> dispatch(const Stream& stream, Workspace workspace, const QuantProblem& p,
                      const Operands& operands) {
  using Learnable = quant_operand::FakeQuantizeBackward;
  if (p.kind == QuantKind::dynamic_quantize) {
    const Result<bool> done = qd::launch_dynamic(stream, workspace, p, operands);
    if (!done) return tl::unexpected(done.error());
    if (*done || numel(p.shape) == 0) return {};
    return qd::launch_quantize(stream, p, qd::elementwise_call(p, operands));
  }
  if (p.kind == QuantKind::fake_quantize_backward && p.learnable &&
      (operands[Learnable::dscale].present || operands[Learnable::dzero_point].present))
    return qd::launch_learn(stream, workspace, p, operands);
  if (numel(p.shape) == 0) return {};
  const qd::ElementwiseCall call = qd::elementwise_call(p, operands);
  switch (p.kind) {
    case QuantKind::quantize:
      return qd::launch_quantize(stream, p, call);
    case QuantKind::quantize_backward:
      return qd::launch_quantize_backward(stream, p, call);
    case QuantKind::dequantize:
      return qd::launch_dequantize(stream, p, call);
    case QuantKind::dequantize_backward:
      return qd::launch_dequantize_backward(stream, p, call);
    case QuantKind::fake_quantize:
      return qd::launch_fake_quantize(stream, p, call);
    case QuantKind::fake_quantize_backward:
    case QuantKind::dynamic_quantize:
      break;
  }
  return qd::launch_fake_quantize_backward(stream, p, call);
}

}  // namespace

Result<void> quantize_cuda(const Stream& stream, Workspace workspace, const QuantProblem& p,
                           const Operands& operands) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  return dispatch(stream, workspace, p, operands);
}

}  // namespace planck
