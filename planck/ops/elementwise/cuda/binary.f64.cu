// y = f(a, b) in f64.
#include "planck/ops/elementwise/cuda/functions.cuh"

namespace planck::elementwise_device {

template <>
Result<void> launch_float_binary<double>(const Stream& stream, const ElementwiseProblem& p,
                                         const Call& call) {
  return launch_binary<double>(stream, p, call, em::FloatBinary{});
}

}  // namespace planck::elementwise_device
