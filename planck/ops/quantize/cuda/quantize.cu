// The rows of the kernel table on the GPU, for every granularity, dtype and stride pattern.
//
// Elementwise kinds are one launch (elementwise.cuh, strided.cuh); sums and ranges over groups are
// in fake_quantize.learn.cu, dynamic_quantize.cu and dynamic_range.cu.
#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/quantize/cuda/kernels.h"
#include "planck/ops/quantize/cuda/launchers.cuh"

namespace planck {

namespace {

namespace qd = quantize_device;

// strided: whatever the layout.
Result<void> elementwise(const Stream& stream, const QuantProblem& p, const Operands& operands,
                         bool strided) {
  if (numel(p.shape) == 0) return {};
  qd::ElementwiseCall call = qd::elementwise_call(p, operands);
  call.strided = strided;
  switch (p.kind) {
    case QuantKind::quantize_backward:
      return qd::launch_quantize_backward(stream, p, call);
    case QuantKind::dequantize:
      return qd::launch_dequantize(stream, p, call);
    case QuantKind::dequantize_backward:
      return qd::launch_dequantize_backward(stream, p, call);
    case QuantKind::fake_quantize:
      return qd::launch_fake_quantize(stream, p, call);
    case QuantKind::fake_quantize_backward:
      return qd::launch_fake_quantize_backward(stream, p, call);
    case QuantKind::quantize:
    case QuantKind::dynamic_quantize:  // its last step
      break;
  }
  return qd::launch_quantize(stream, p, call);
}

// Calls f() with the stream's device as the current one.
template <class F>
Result<void> on_device_of(const Stream& stream, F f) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  return f();
}

}  // namespace

Result<void> quantize_vector_cuda(const Stream& stream, Workspace, const QuantProblem& p,
                                  const Operands& operands) {
  return on_device_of(stream, [&] { return elementwise(stream, p, operands, false); });
}

Result<void> quantize_strided_cuda(const Stream& stream, Workspace, const QuantProblem& p,
                                   const Operands& operands) {
  return on_device_of(stream, [&] { return elementwise(stream, p, operands, true); });
}

Result<void> quantize_dynamic_cuda(const Stream& stream, Workspace workspace, const QuantProblem& p,
                                   const Operands& operands) {
  return on_device_of(stream, [&]() -> Result<void> {
    const Result<bool> done = qd::launch_dynamic(stream, workspace, p, operands);
    if (!done) return tl::unexpected(done.error());
    return *done ? Result<void>() : elementwise(stream, p, operands, false);
  });
}

Result<void> quantize_learned_cuda(const Stream& stream, Workspace workspace, const QuantProblem& p,
                                   const Operands& operands) {
  using Operand = quant_operand::FakeQuantizeBackward;
  return on_device_of(stream, [&] {
    return operands[Operand::dscale].present || operands[Operand::dzero_point].present
               ? qd::launch_learn(stream, workspace, p, operands)
               : elementwise(stream, p, operands, false);
  });
}

}  // namespace planck
