// y = f(x) in f32.
#include "planck/ops/elementwise/cuda/functions.cuh"

namespace planck::elementwise_device {

template <>
Result<void> launch_float_unary<float>(const Stream& stream, const ElementwiseProblem& p,
                                       const Call& call) {
  return launch_unary<float>(stream, p, call, em::FloatUnary{});
}

}  // namespace planck::elementwise_device
