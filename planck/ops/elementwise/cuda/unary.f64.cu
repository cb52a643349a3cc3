// y = f(x) in f64.
#include "planck/ops/elementwise/cuda/functions.cuh"

namespace planck::elementwise_device {

template <>
Result<void> launch_float_unary<double>(const Stream& stream, const ElementwiseProblem& p,
                                        const Call& call) {
  return launch_unary<double>(stream, p, call, em::FloatUnary{});
}

}  // namespace planck::elementwise_device
