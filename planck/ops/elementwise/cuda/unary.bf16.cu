// y = f(x) in bf16.
#include "planck/ops/elementwise/cuda/functions.cuh"

namespace planck::elementwise_device {

template <>
Result<void> launch_float_unary<bf16>(const Stream& stream, const ElementwiseProblem& p,
                                      const Call& call) {
  return launch_unary<bf16>(stream, p, call, em::FloatUnary{});
}

}  // namespace planck::elementwise_device
