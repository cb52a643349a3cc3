#include "planck/ops/quantize/cuda/elementwise.launch.cuh"
#include "planck/ops/quantize/cuda/launchers.cuh"

namespace planck::quantize_device {

Result<void> launch_dequantize(const Stream& stream, const QuantProblem& p,
                               const ElementwiseCall& call) {
  return visit_float(p.element_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return is_packed(p.dtype) ? launch_elementwise<Dequantize<T, Nibbles>>(stream, call)
                              : launch_elementwise<Dequantize<T, Bytes>>(stream, call);
  });
}

}  // namespace planck::quantize_device
