#include "planck/ops/quantize/cuda/elementwise.launch.cuh"
#include "planck/ops/quantize/cuda/launchers.cuh"

namespace planck::quantize_device {

Result<void> launch_quantize_backward(const Stream& stream, const QuantProblem& p,
                                      const ElementwiseCall& call) {
  return visit_float(p.element_dtype, [&](auto type) {
    return launch_elementwise<QuantizeBackward<typename decltype(type)::type>>(stream, call);
  });
}

Result<void> launch_dequantize_backward(const Stream& stream, const QuantProblem& p,
                                        const ElementwiseCall& call) {
  return visit_float(p.element_dtype, [&](auto type) {
    return launch_elementwise<DequantizeBackward<typename decltype(type)::type>>(stream, call);
  });
}

}  // namespace planck::quantize_device
